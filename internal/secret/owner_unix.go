//go:build unix

package secret

import (
	"os"
	"syscall"
)

// grantedByRoot reports whether root owns the file and this process runs as another user.
// Kubernetes (fsGroup) and systemd (an access control list, whose mask the group bits show)
// provide secrets this way, readable by a dedicated group. An unprivileged user cannot
// create such a file, so a file owned by the user of this process must not have these bits.
func grantedByRoot(st os.FileInfo) bool {
	s, ok := st.Sys().(*syscall.Stat_t)
	return ok && s.Uid == 0 && os.Geteuid() != 0
}
