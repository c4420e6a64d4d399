// Package version says which version of Shardway this source tree is, and which build
// of it this program is.
package version

import (
	"runtime"
	"runtime/debug"
)

// Version is that of this source tree.
const Version = "0.1.0-dev"

// The linker sets these for a build outside of a repository, or of a release:
//
//	-ldflags "-X shardway/internal/version.commit=HASH -X shardway/internal/version.date=RFC3339"
var commit, date string

// Build is what is known of this program. What the build did not tell is empty.
type Build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Date     string `json:"date,omitempty"`     // RFC 3339, of the commit unless the release says another
	Modified bool   `json:"modified,omitempty"` // the source had changes that are in no commit
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Read returns what is known of this program.
func Read() Build {
	info, _ := debug.ReadBuildInfo()
	return read(info, commit, date)
}

// read prefers what the linker set over what the go command found in the repository.
func read(info *debug.BuildInfo, commit, date string) Build {
	b := Build{Version: Version, Commit: commit, Date: date, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info == nil || commit != "" {
		return b
	}
	for _, kv := range info.Settings {
		switch kv.Key {
		case "vcs.revision":
			b.Commit = kv.Value
		case "vcs.time":
			if date == "" {
				b.Date = kv.Value
			}
		case "vcs.modified":
			b.Modified = kv.Value == "true"
		}
	}
	return b
}

// String is one line for people.
func (b Build) String() string {
	text := "shardway " + b.Version
	if b.Commit != "" {
		text += ", commit " + b.Commit
	}
	if b.Modified {
		text += " with changes"
	}
	if b.Date != "" {
		text += " of " + b.Date
	}
	return text + ", " + b.Go + ", " + b.Platform
}
