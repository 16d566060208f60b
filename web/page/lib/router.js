// Addresses: from a path to a view and back. pgq-web may serve the page below a prefix (--prefix
// /pgq). The page learns the prefix from the address of its own script.

export const PREFIX = new URL('..', import.meta.url).pathname.replace(/\/$/, '');

// The first pattern that fits wins. A word with a colon is any text without a slash.
const ROUTES = [
	['/', 'overview'],
	['/queues/:name', 'queue'],
	['/jobs', 'jobs'],
	['/jobs/:id', 'job'],
	['/dead', 'dead'],
	['/schedules', 'schedules'],
	['/handlers', 'handlers'],
	['/batches', 'batches'],
	['/locks', 'locks'],
	['/rates', 'rates'],
	['/runs', 'runs'],
	['/capacity', 'capacity'],
	['/login', 'login'],
];

// Returns the address of a page. Members of `query` that are empty are left out.
export function address(path, query = {}) {
	const filled = Object.entries(query).filter(
		([, value]) => value !== '' && value !== null && value !== undefined,
	);
	const search = new URLSearchParams(filled).toString();
	return PREFIX + path + (search ? '?' + search : '');
}

export const queuePath = (name) => '/queues/' + encodeURIComponent(name);
export const jobPath = (id) => '/jobs/' + encodeURIComponent(id);

function decode(part) {
	try {
		return decodeURIComponent(part);
	} catch {
		return part;
	}
}

// Returns { view, params, query } of an address; view is null if no pattern fits.
export function match(location) {
	const query = Object.fromEntries(new URLSearchParams(location.search));
	const path = location.pathname.startsWith(PREFIX)
		? location.pathname.slice(PREFIX.length)
		: location.pathname;
	const parts = path.replace(/\/+$/, '').split('/');
	for (const [pattern, view] of ROUTES) {
		const words = pattern.replace(/\/+$/, '').split('/');
		if (words.length !== parts.length) continue;
		const params = {};
		const fits = words.every((word, i) => {
			if (!word.startsWith(':')) return word === parts[i];
			params[word.slice(1)] = decode(parts[i]);
			return parts[i] !== '';
		});
		if (fits) return { view, params, query };
	}
	return { view: null, params: {}, query };
}

let onChange = () => {};

// Goes to an address of the page. With `replace` the back button does not lead to the present one.
export function go(href, { replace = false } = {}) {
	if (replace) history.replaceState(null, '', href);
	else if (href !== location.pathname + location.search) history.pushState(null, '', href);
	onChange({ isSearch: replace });
}

// Calls `change` whenever the address has changed. Plain clicks on links of the page load nothing.
export function start(change) {
	onChange = change;
	addEventListener('popstate', () => onChange({}));
	document.addEventListener('click', (event) => {
		const link = event.target.closest?.('a[href]');
		if (!link || event.defaultPrevented || event.button !== 0) return;
		if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey || link.target) return;
		const url = new URL(link.href);
		if (url.origin !== location.origin || url.hash || !url.pathname.startsWith(PREFIX + '/'))
			return;
		event.preventDefault();
		go(url.pathname + url.search);
	});
}
