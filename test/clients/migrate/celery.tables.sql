CREATE TEMPORARY TABLE incoming (message jsonb);
