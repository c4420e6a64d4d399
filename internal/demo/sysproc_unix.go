//go:build unix && !linux

package demo

import "syscall"

// childAttr puts a child into its own process group, so that Ctrl-C does not reach it: the supervisor
// stops the children in order.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
