//go:build unix

package secret

import (
	"os"
	"syscall"
)

// given reports whether a file was given to this process by root, who owns it, while the
// process is another user. Kubernetes (fsGroup) and systemd (by an access control list,
// whose mask the group's bits show) hand secrets over so, readable by a group that was
// made for that; an ordinary user cannot, so a file of the process's own user may not
// have such bits.
func grantedByRoot(st os.FileInfo) bool {
	s, ok := st.Sys().(*syscall.Stat_t)
	return ok && s.Uid == 0 && os.Geteuid() != 0
}
