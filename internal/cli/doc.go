// Package cli is the command line: it parses the commands, asks a node's admin
// port or starts a node, and writes the answer for people or as JSON.
//
// Run is all that main calls. The settings of a node are not parsed here: run
// and check hand their arguments to package config as they are, so that a flag
// stands in one table only.
//
// The exit code is 0 when all went well, 1 when something failed (one line says
// what), and 2 when the command line or the configuration is wrong.
package cli
