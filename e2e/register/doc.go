//go:build linux

// Package register judges whether every key of a test behaved as one register,
// whatever node, app and epoch served it: whether its history is linearizable.
package register
