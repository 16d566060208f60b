// What the reader has chosen: colours, and whether payloads are shown. Kept in this browser only.

function read(name) {
	try {
		return localStorage.getItem('pgq-web.' + name);
	} catch {
		return null; // storage is switched off
	}
}

function write(name, value) {
	try {
		localStorage.setItem('pgq-web.' + name, value);
	} catch {
		// the choice lasts as long as the page
	}
	chosen[name] = value;
}

const chosen = { theme: read('theme') ?? 'auto', payloads: read('payloads') ?? 'shown' };

export const THEMES = {
	auto: 'Colours: system',
	light: 'Colours: light',
	dark: 'Colours: dark',
};

export function theme() {
	return chosen.theme in THEMES ? chosen.theme : 'auto';
}

export function applyTheme() {
	if (theme() === 'auto') delete document.documentElement.dataset.theme;
	else document.documentElement.dataset.theme = theme();
}

export function nextTheme() {
	const names = Object.keys(THEMES);
	write('theme', names[(names.indexOf(theme()) + 1) % names.length]);
	applyTheme();
}

export function arePayloadsHidden() {
	return chosen.payloads === 'hidden';
}

export function hidePayloads(hide) {
	write('payloads', hide ? 'hidden' : 'shown');
}
