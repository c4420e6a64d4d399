package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"shardway/config"
	"shardway/node/announce"
)

type announceCommand struct {
	Args []string `arg:"" help:"See shardway announce --help." optional:""`
}

// Run announces a service until ctx ends.
func (c *announceCommand) Run(ctx context.Context, session *session) error {
	cfg, err := config.LoadAnnouncement(c.Args, session.environ, os.ReadFile)
	if errors.Is(err, config.ErrHelp) {
		return announceHelp(session.out)
	}
	if err != nil {
		return err
	}
	setLogLevel(&cfg)
	announcement, err := announce.New(&cfg, logger(&cfg, session.err))
	if err != nil {
		return err
	}
	return announcement.Run(ctx)
}

// announceHelp writes the help of announce with all flags.
func announceHelp(w io.Writer) error {
	var text strings.Builder
	text.WriteString(`Usage: shardway announce --name NAME --endpoint NAME=ADDR --join ADDR [flags]

Announces the addresses of a service that is not a node, for as long as the command runs.
All nodes then show them: shardway endpoints. The command joins the gossip of the cluster
with the cluster's secret, and tries again when it has lost all nodes. On SIGTERM or Ctrl-C
it leaves, and the addresses disappear. If it crashes, they disappear after about 5 s.

Each flag is also an environment variable and a key of the YAML file: --secret-file is
SHARDWAY_SECRET_FILE and secret_file. Flags override variables, and variables override
the file. For a list (...), repeat the flag or separate the values with commas.

Flags:
`)
	for _, flag := range config.AnnounceFlags() {
		name, help := "--"+flag.Name, flag.Help
		if flag.Metavar != "" {
			name += "=" + flag.Metavar
		}
		if flag.IsList {
			name += "..."
		}
		if flag.Default != "" {
			help += " (" + flag.Default + ")"
		}
		fmt.Fprintf(&text, "  %-35s %s\n", name, help)
	}
	_, err := io.WriteString(w, text.String())
	return err
}
