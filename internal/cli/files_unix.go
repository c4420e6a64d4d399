//go:build linux || darwin

package cli

import "syscall"

// fileLimit returns the maximum number of open files of this process; zero means unknown. The Go
// runtime has already raised the soft limit to the hard limit.
func fileLimit() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return limit.Cur
}
