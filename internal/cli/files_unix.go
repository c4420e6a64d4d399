//go:build linux || darwin

package cli

import "syscall"

// fileLimit returns how many files a process may have open that is started like this one;
// zero: nobody knows. The Go runtime has raised it as far as that is allowed.
func fileLimit() uint64 {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return 0
	}
	return l.Cur
}
