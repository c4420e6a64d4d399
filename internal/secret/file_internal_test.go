package secret

import (
	"io/fs"
	"testing"
)

// What Kubernetes and systemd give to a process that is not root is root's, and has the
// group's bit for reading: it was refused, so no secret could be given there but to root.
func TestFilesThatRootGivesMayBeReadByTheirGroup(t *testing.T) {
	for _, c := range []struct {
		mode       fs.FileMode
		own, given bool // whether they pass
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
		if accessibleByOthers(c.mode, false) == c.own || accessibleByOthers(c.mode, true) == c.given {
			t.Errorf("%s: shared %v, given by root %v", c.mode, accessibleByOthers(c.mode, false), accessibleByOthers(c.mode, true))
		}
	}
}
