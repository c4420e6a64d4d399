// Package browser drives Chromium for the tests of pages: it opens them, presses keys,
// evaluates expressions, takes pictures, and keeps what the browser complains of.
//
// It speaks the DevTools protocol over two pipes that the process inherits, so no port is
// opened, and takes the few methods that it needs as they are in the protocol's own
// documentation: a library with all of them would be larger than this project.
package browser
