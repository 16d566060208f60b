// Text of others: names, errors, payloads. Makes characters visible that could make a text look
// like another one, and lays out JSON without reading its numbers, so that no digit is lost.

// Control characters, direction marks, and characters without width.
// eslint-disable-next-line no-control-regex
const HIDDEN =
	/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

function escape(character) {
	return '\\u{' + character.codePointAt(0).toString(16) + '}';
}

// Returns the text with hidden characters written as \u{202e}. Line ends and tabs stay.
export function visible(text) {
	return String(text).replace(HIDDEN, escape);
}

// As visible(), in one line of at most `length` characters.
export function brief(text, length = 200) {
	const all = String(text);
	const line = visible(all.slice(0, length)).replace(/\s+/g, ' ');
	return all.length > length ? line + '…' : line;
}

// Returns the place behind the string of JSON that begins at `start`; the end if it is cut off.
function endOfString(json, start) {
	let at = start + 1;
	while (true) {
		const quote = json.indexOf('"', at);
		if (quote < 0) return json.length;
		let slashes = 0;
		while (json[quote - 1 - slashes] === '\\') slashes++;
		if (slashes % 2 === 0) return quote + 1;
		at = quote + 1;
	}
}

// Cuts JSON text into strings, brackets, commas, colons, and all else between them.
function* tokensOf(json) {
	const other = /[{}[\],:]|[^\s{}[\],:"]+/g;
	let at = 0;
	let quote = -1; // the next quotation mark at or behind `at`
	while (at < json.length) {
		other.lastIndex = at;
		if (quote < at) quote = json.indexOf('"', at);
		if (quote < 0) quote = Infinity;
		const found = other.exec(json);
		if (quote < (found?.index ?? json.length)) {
			at = endOfString(json, quote);
			yield json.slice(quote, at);
		} else {
			if (!found) return;
			at = other.lastIndex;
			yield found[0];
		}
	}
}

// Returns JSON text with line ends and indentation. Strings and numbers are copied, not parsed. The
// text may be cut off anywhere.
export function layOut(json) {
	let out = '';
	let depth = 0;
	let isOpened = false; // the last token was an opening bracket
	for (const token of tokensOf(json)) {
		const isEnd = token === '}' || token === ']';
		if (isEnd) depth = Math.max(0, depth - 1);
		if (isOpened !== isEnd) out += line(depth);
		isOpened = token === '{' || token === '[';
		if (isOpened) depth++;
		if (token === ',') out += ',' + line(depth);
		else out += token === ':' ? ': ' : token;
	}
	return out;
}

function line(depth) {
	return '\n' + '  '.repeat(Math.min(depth, 40));
}

// Returns { pattern, isWhole }: the pattern of LIKE that matches exactly this error; or, if the error
// is too long for a pattern (1,000 bytes), not isWhole, and a pattern of all errors that begin alike.
export function likePattern(error) {
	const encoder = new TextEncoder();
	let pattern = '';
	let bytes = 0;
	for (const character of error) {
		const next = /[%_\\]/.test(character) ? '\\' + character : character;
		bytes += encoder.encode(next).length;
		if (bytes > 990) return { pattern: pattern + '%', isWhole: false };
		pattern += next;
	}
	return { pattern, isWhole: true };
}
