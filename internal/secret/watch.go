package secret

import (
	"context"
	"os"
	"time"
)

// watchEvery is how often files are looked at. Nobody waits for them: a
// rotation tells the nodes itself.
const watchEvery = 2 * time.Second

// Seen is what some files were at one moment: take it before reading them, so that
// no change falls between the reading and the watch.
type Seen struct {
	paths []string
	were  []os.FileInfo
}

// See looks at the files.
func See(paths ...string) Seen { return Seen{paths: paths, were: look(paths)} }

// None reports that there are no files to watch.
func (s Seen) None() bool { return len(s.paths) == 0 }

// Watch calls changed whenever one of the files has become another one than it was,
// by its identity, length or time, until ctx ends. Links are followed, so a directory
// that a container system swaps counts too.
func (s Seen) Watch(ctx context.Context, changed func()) {
	seen := s.were
	t := time.NewTicker(watchEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		now := look(s.paths)
		differs := false
		for i := range now {
			differs = differs || !same(seen[i], now[i])
		}
		if differs {
			seen = now
			changed()
		}
	}
}

// look returns what the files are, nil for one that is not there.
func look(paths []string) []os.FileInfo {
	out := make([]os.FileInfo, len(paths))
	for i, p := range paths {
		if st, err := os.Stat(p); err == nil {
			out[i] = st
		}
	}
	return out
}

func same(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && a.Mode() == b.Mode()
}
