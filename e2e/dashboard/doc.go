// Package dashboard tests the page of the admin port in a browser, with invented clusters
// (Scene) of any size and in any state. Its tests are skipped without Chromium. `make
// pictures` takes the screenshots of the README. Package e2e tests the page of a real
// cluster.
package dashboard
