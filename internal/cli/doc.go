// Package cli is the command line: it parses the commands, asks a node's admin
// port or starts a node, and writes the answer for people or as JSON.
//
// Run is all that main calls. The settings of a node are not parsed here: run
// and check hand their arguments to package config as they are, so that a flag
// stands in one table only.
//
// What the exit codes mean stands in one table, exitCodes.
package cli
