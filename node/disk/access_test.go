package disk_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shardway/node/disk"
)

// Access that a umask or an image gave to every user is removed. Access of a group is kept,
// and so is the mode of a directory with other files.
func TestAccessOfAllUsersIsRemoved(t *testing.T) {
	file := func(t *testing.T, path string) {
		t.Helper()
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, tt := range map[string]struct {
		mode, want fs.FileMode
		told       bool // Access reports that it was open
		fill       func(t *testing.T, dir string)
	}{
		"open to read":       {0o755, 0o700, true, nil},
		"open to write":      {0o777, 0o700, true, nil},
		"the group's too":    {0o750, 0o750, false, nil},
		"closed":             {0o700, 0o700, false, nil},
		"for everybody":      {0o777 | fs.ModeSticky, 0o777 | fs.ModeSticky, true, nil},
		"a volume":           {0o755, 0o700, true, func(t *testing.T, dir string) { t.Helper(); file(t, filepath.Join(dir, "lost+found")) }},
		"of other use":       {0o755, 0o755, true, func(t *testing.T, dir string) { t.Helper(); file(t, filepath.Join(dir, ".profile")) }},
		"of one that is one": {0o755, 0o700, true, func(t *testing.T, dir string) { t.Helper(); openedBefore(t, dir) }},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if tt.fill != nil {
				tt.fill(t, dir)
			}
			if err := os.Chmod(dir, tt.mode); err != nil {
				t.Fatal(err)
			}
			d, err := disk.Open(dir, "a")
			if err != nil {
				t.Fatal(err)
			}
			o := d.Access()
			if err = d.Close(); err != nil {
				t.Fatal(err)
			}
			st, err := os.Stat(dir)
			if err != nil {
				t.Fatal(err)
			}
			if got := st.Mode() &^ fs.ModeDir; got != tt.want {
				t.Errorf("the mode is %v, want %v", got, tt.want)
			}
			if told, closed := o.Mode != 0, tt.told && tt.want == 0o700; told != tt.told || o.Removed != closed {
				t.Errorf("told %+v, want told %v, closed %v", o, tt.told, closed)
			}
		})
	}
}

// openedBefore creates the files of a node with access for all users.
func openedBefore(t *testing.T, dir string) {
	t.Helper()
	d, err := disk.Open(dir, "a")
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.OpenStores(disk.StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err = s.Close(); err != nil {
		t.Fatal(err)
	}
	if err = d.Close(); err != nil {
		t.Fatal(err)
	}
}

// A user who may create files in the directory could otherwise make the node truncate any
// file through a link in place of the lock or of a temporary file.
func TestSymbolicLinksInDirectoryAreRefused(t *testing.T) {
	for _, name := range []string{"lock", "identity.json", "boot.json.tmp", "known.json.tmp", "gossip", "gossip.compact", "raft/log.db", "raft/log.db.tmp"} {
		path, victim := t.TempDir(), filepath.Join(t.TempDir(), "victim")
		if err := errors.Join(os.WriteFile(victim, []byte("precious"), 0o600), os.Mkdir(filepath.Join(path, "raft"), 0o700),
			os.Symlink(victim, filepath.Join(path, name))); err != nil {
			t.Fatal(err)
		}
		d, err := disk.Open(path, "a")
		if err == nil {
			_ = d.Close()
		}
		if err == nil || !strings.Contains(err.Error(), filepath.Join(path, name)+" is a symbolic link") {
			t.Errorf("%s: Open = %v, want it refused by name", name, err)
		}
		if b, err := os.ReadFile(victim); err != nil || string(b) != "precious" {
			t.Errorf("%s: what it leads to holds %q now, %v", name, b, err)
		}
	}
}

// A link that is created while the node runs is not followed either.
func TestSymbolicLinksCreatedLaterAreNotFollowed(t *testing.T) {
	path, victim := t.TempDir(), filepath.Join(t.TempDir(), "victim")
	d := mustOpen(t, path, "a")
	defer func() { _ = d.Close() }()
	if err := errors.Join(os.WriteFile(victim, []byte("precious"), 0o600), os.Symlink(victim, filepath.Join(path, "known.json.tmp"))); err != nil {
		t.Fatal(err)
	}
	if err := d.StoreDiskRecords([]disk.DiskRecord{{Server: "b/x", Boot: 1}}); err == nil {
		t.Error("written through a link")
	}
	if b, err := os.ReadFile(victim); err != nil || string(b) != "precious" {
		t.Errorf("what it leads to holds %q now, %v", b, err)
	}
	// The operator may choose a directory elsewhere through a link.
	other, elsewhere := t.TempDir(), t.TempDir()
	if err := mustOpen(t, other, "a").Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, filepath.Join(other, "raft")); err != nil {
		t.Fatal(err)
	}
	if err := mustOpen(t, other, "a").Close(); err != nil {
		t.Error(err)
	}
}
