// Package browser controls Chromium for the tests of web pages. It opens pages, presses
// keys, evaluates expressions, takes screenshots, and collects the errors that the
// browser reports.
//
// It uses the DevTools protocol over two pipes that the process inherits, so it opens no
// port. It sends the few methods that it needs as the protocol documentation describes
// them. A library with all of them would be larger than this project.
package browser
