//go:build linux

// Package recipes tests Shardway with apps that others wrote and that are not modified.
//
// Each test is a recipe of docs/apps/unmodified.md. It runs three instances of real software, each behind its own
// node, and clients that send their requests through all nodes. A recipe checks a drain, a rolling restart
// of the nodes, and kill -9 of an instance and of a node: no session changes its instance while its owner
// stays, and no request fails.
//
// The software comes from package registries:
//
//   - Node modules: testdata/NAME contains package.json and package-lock.json. The lock file contains no
//     registry addresses: npm install --omit-lockfile-registry-resolved writes it. npmCI installs the modules once, into
//     a directory of the test run.
//   - Go modules: testdata/NAME is a module of its own, which the test builds.
//   - Programs of Go modules: make tools builds a program with the version in the Makefile into .bin. findPinned
//     returns its path.
//   - Debian packages: a need line in .ci/run installs them. findProgram fails a test if a program is missing.
//
// All processes of a test run have the variable RECIPES_RUN in their environment. The run fails if any process is left at
// its end. A reaper kills them all when the test process dies.
//
// startWorld starts the instances and the nodes. startProcesses starts nodes that run one process of the software for
// each key (--exec). The tests run in make test-rest, not in make test.
package recipes
