package cli

import (
	"fmt"

	"shardway/internal/version"
)

// Version is the version of this source tree.
const Version = version.Version

type versionCommand struct {
	JSON bool `help:"Write JSON." name:"json"`
}

// Run prints the version.
func (c *versionCommand) Run(s *session) error {
	b := version.Read()
	if c.JSON {
		return writeJSON(s.out, b)
	}
	text := b.String()
	_, err := fmt.Fprintln(s.out, text)
	return err
}
