package secret

import (
	"context"
	"os"
	"time"
)

// watchInterval is how often files are checked. A rotation does not wait for it, because it
// notifies the nodes directly.
const watchInterval = 2 * time.Second

// FileState is the state of some files at one moment. Callers take it before they read the
// files, so that a change between reading and watching is not missed.
type FileState struct {
	paths []string
	infos []os.FileInfo
}

// StatFiles returns the current state of the files.
func StatFiles(paths ...string) FileState { return FileState{paths: paths, infos: statAll(paths)} }

// Empty reports that there are no files to watch.
func (s FileState) Empty() bool { return len(s.paths) == 0 }

// Watch calls changed whenever the identity, size, modification time or mode of a file
// differs from the last known state, until ctx ends. It follows symbolic links, so it
// detects a directory that a container runtime swaps.
func (s FileState) Watch(ctx context.Context, changed func()) {
	known := s.infos
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		current := statAll(s.paths)
		differs := false
		for i := range current {
			differs = differs || !sameFile(known[i], current[i])
		}
		if differs {
			known = current
			changed()
		}
	}
}

// statAll returns the state of each file, nil for a missing file.
func statAll(paths []string) []os.FileInfo {
	out := make([]os.FileInfo, len(paths))
	for i, p := range paths {
		if st, err := os.Stat(p); err == nil {
			out[i] = st
		}
	}
	return out
}

func sameFile(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && a.Mode() == b.Mode()
}
