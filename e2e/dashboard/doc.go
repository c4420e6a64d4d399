// Package dashboard looks at the page of the admin port through a browser, with clusters
// that it makes up (Scene), of any size and in any state. Its tests are skipped where there
// is no Chromium. `make pictures` takes the README's pictures. A real cluster is looked at
// in package e2e.
package dashboard
