package secret

import (
	"io/fs"
	"testing"
)

// Kubernetes and systemd provide secrets to an unprivileged process as files that root owns
// and the group can read. Rejecting them would leave no way to provide a secret there
// except to root.
func TestGroupMayReadFileGrantedByRoot(t *testing.T) {
	for _, c := range []struct {
		mode                  fs.FileMode
		ownFileOK, rootFileOK bool
	}{
		{0o400, true, true},
		{0o600, true, true},
		{0o440, false, true},
		{0o640, false, true},
		{0o460, false, false},
		{0o450, false, false},
		{0o444, false, false},
		{0o404, false, false},
		{0o644, false, false},
	} {
		if accessibleByOthers(c.mode, false) == c.ownFileOK || accessibleByOthers(c.mode, true) == c.rootFileOK {
			t.Errorf("%s: accessible by others: %v, if granted by root: %v", c.mode, accessibleByOthers(c.mode, false), accessibleByOthers(c.mode, true))
		}
	}
}
