INSERT INTO incoming VALUES ('{"MessageId": "a", "ReceiptHandle": "x", "Body": "{\"to\": \"plain\"}"}'), ('{"MessageId": "a", "ReceiptHandle": "y", "Body": "{\"to\": \"plain\"}"}'),
	('{"MessageId": "b", "ReceiptHandle": "z", "Body": "{\"to\": \"urgent\"}", "MessageAttributes": {"h": {"DataType": "String", "StringValue": "1"}}}');
