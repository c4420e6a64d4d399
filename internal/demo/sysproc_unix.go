//go:build unix && !linux

package demo

import "syscall"

// childAttr keeps the terminal's Ctrl-C from a child, which the supervisor stops
// in order.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
