package demo

import "syscall"

// childAttr keeps the terminal's Ctrl-C from a child, which the supervisor stops
// in order, and has the kernel kill it should the supervisor itself be killed.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
