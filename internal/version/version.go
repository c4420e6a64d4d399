// Package version contains the version of Shardway, and reports the source that the running program was built from.
package version

import (
	"runtime"
	"runtime/debug"
)

// Version is the version of this source tree.
const Version = "0.1.0-dev"

// commit and date are set by the linker for releases, and for builds outside of a repository:
//
//	-ldflags "-X shardway/internal/version.commit=HASH -X shardway/internal/version.date=RFC3339"
var commit, date string

// Build describes the build of this program. A field is empty if the build did not record it.
type Build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Date     string `json:"date,omitempty"`     // RFC 3339; the date of the commit, or the date that the linker set
	Modified bool   `json:"modified,omitempty"` // the source contained uncommitted changes
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Read returns the description of this program.
func Read() Build {
	info, _ := debug.ReadBuildInfo()
	return read(info, commit, date)
}

// read returns the values that the linker set. Without them, it returns the values that the go
// command found in the repository.
func read(info *debug.BuildInfo, commit, date string) Build {
	build := Build{Version: Version, Commit: commit, Date: date, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info == nil || commit != "" {
		return build
	}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			build.Commit = setting.Value
		case "vcs.time":
			if date == "" {
				build.Date = setting.Value
			}
		case "vcs.modified":
			build.Modified = setting.Value == "true"
		}
	}
	return build
}

// String returns the description as one line for operators.
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
