package secret

import (
	"context"
	"os"
	"time"
)

// watchInterval is how often files are looked at. Nobody waits for them: a
// rotation tells the nodes itself.
const watchInterval = 2 * time.Second

// FileState is what some files infos at one moment: take it before reading them, so that
// no change falls between the reading and the watch.
type FileState struct {
	paths []string
	infos []os.FileInfo
}

// See looks at the files.
func StatFiles(paths ...string) FileState { return FileState{paths: paths, infos: statAll(paths)} }

// None reports that there are no files to watch.
func (s FileState) Empty() bool { return len(s.paths) == 0 }

// Watch calls changed whenever one of the files has become another one than it was,
// by its identity, length or time, until ctx ends. Links are followed, so a directory
// that a container system swaps counts too.
func (s FileState) Watch(ctx context.Context, changed func()) {
	seen := s.infos
	t := time.NewTicker(watchInterval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		now := statAll(s.paths)
		differs := false
		for i := range now {
			differs = differs || !sameFile(seen[i], now[i])
		}
		if differs {
			seen = now
			changed()
		}
	}
}

// look returns what the files are, nil for one that is not there.
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
