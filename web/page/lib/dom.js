// Builds nodes, and changes the nodes on the page to look like new ones.
//
// A view builds all of its nodes anew for each answer of the server. morph() then changes only what
// differs, so that focus, selected text, scroll positions and open details stay as they are.
//
// Text always becomes a text node. So text of a job or a queue can never become markup.

const SVG = 'http://www.w3.org/2000/svg';
const SVG_TAGS = new Set(['svg', 'g', 'path', 'line', 'rect', 'text', 'circle', 'title']);
// The user changes these attributes, so an update of the page must not.
const KEPT = { DETAILS: ['open'], DIALOG: ['open'], INPUT: ['value', 'checked'], TR: ['tabindex'] };

// Returns a new element. props: attributes; and `on`, an object of event handlers; and `key`, which
// tells morph() that two elements among their siblings are the same one. A child is a node, text, a
// number, an array of children, or null (nothing).
export function h(tag, props, ...children) {
	const element = SVG_TAGS.has(tag)
		? document.createElementNS(SVG, tag)
		: document.createElement(tag);
	for (const [name, value] of Object.entries(props ?? {})) {
		if (name === 'key') element._key = String(value);
		else if (name === 'on') listen(element, value);
		else if (value === true) element.setAttribute(name, '');
		else if (value !== false && value !== null && value !== undefined)
			element.setAttribute(name, value);
	}
	append(element, children);
	return element;
}

function append(element, children) {
	for (const child of children) {
		if (child === null || child === undefined || child === false) continue;
		if (Array.isArray(child)) append(element, child);
		else element.append(child instanceof Node ? child : document.createTextNode(String(child)));
	}
}

// Handlers are kept in a member, because morph() must be able to replace them.
function listen(element, handlers) {
	element._on = handlers;
	for (const type of Object.keys(handlers)) element.addEventListener(type, dispatch);
}

function dispatch(event) {
	event.currentTarget._on?.[event.type]?.(event);
}

// Makes an element that updates itself: morph() passes the new data to update() and leaves the
// element alone.
export function component(element, data, update) {
	element._data = data;
	element._update = update;
	update(data);
	return element;
}

// Replaces the children of `parent` by `nodes`, and keeps the focus.
export function show(parent, ...nodes) {
	const active = document.activeElement;
	const next = parent.cloneNode(false);
	append(next, nodes);
	morphChildren(parent, next);
	if (
		active &&
		active !== document.activeElement &&
		active.isConnected &&
		parent.contains(active)
	) {
		active.focus({ preventScroll: true });
	}
}

function isSame(from, to) {
	return (
		from.nodeType === to.nodeType &&
		from.nodeName === to.nodeName &&
		from._key === to._key &&
		Boolean(from._update) === Boolean(to._update)
	);
}

function morph(from, to) {
	if (!isSame(from, to)) {
		from.replaceWith(to);
	} else if (from.nodeType !== Node.ELEMENT_NODE) {
		if (from.data !== to.data) from.data = to.data;
	} else if (from._update) {
		from._update(to._data);
	} else {
		morphAttributes(from, to);
		morphHandlers(from, to);
		morphChildren(from, to);
	}
}

function morphAttributes(from, to) {
	const kept = KEPT[from.nodeName] ?? [];
	for (const { name, value } of [...to.attributes]) {
		if (!kept.includes(name) && from.getAttribute(name) !== value)
			from.setAttribute(name, value);
	}
	for (const { name } of [...from.attributes]) {
		if (!kept.includes(name) && !to.hasAttribute(name)) from.removeAttribute(name);
	}
}

function morphHandlers(from, to) {
	for (const type of Object.keys(to._on ?? {})) from.addEventListener(type, dispatch); // twice is once
	from._on = to._on;
}

// Elements with a key are found by their key; all other nodes are paired by their order.
function morphChildren(from, to) {
	const wanted = new Set([...to.childNodes].map((child) => child._key));
	const keyed = new Map();
	for (const child of [...from.childNodes]) {
		if (child._key === undefined) continue;
		if (wanted.has(child._key)) keyed.set(child._key, child);
		else child.remove();
	}
	let current = from.firstChild;
	for (const next of [...to.childNodes]) {
		let match = keyed.get(next._key);
		if (next._key === undefined) match = current?._key === undefined ? current : null;
		if (!match) {
			from.insertBefore(next, current);
		} else {
			if (match === current) current = current.nextSibling;
			else from.insertBefore(match, current);
			morph(match, next);
		}
	}
	while (current) {
		const next = current.nextSibling;
		current.remove();
		current = next;
	}
}
