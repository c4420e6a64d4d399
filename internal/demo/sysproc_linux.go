package demo

import "syscall"

// childAttr puts a child into its own process group, so that Ctrl-C does not reach it: the supervisor
// stops the children in order. The kernel kills the child if the supervisor is killed.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
