package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"shardway/internal/version"
)

// Version is the version of this source tree.
const Version = version.Version

type versionCommand struct {
	JSON bool `help:"Write JSON." name:"json"`
}

// build is the JSON of the version.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"` // of the source, when the build knows it
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Run writes the version.
func (c *versionCommand) Run(s *session) error {
	b := build{Version: Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, kv := range info.Settings {
			if kv.Key == "vcs.revision" {
				b.Revision = kv.Value
			}
		}
	}
	if c.JSON {
		return writeJSON(s.out, b)
	}
	text := "shardway " + b.Version
	if b.Revision != "" {
		text += " (" + b.Revision + ")"
	}
	_, err := fmt.Fprintf(s.out, "%s, %s, %s\n", text, b.Go, b.Platform)
	return err
}
