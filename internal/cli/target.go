package cli

import (
	"encoding/json"
	"io"
	"slices"
	"strings"

	"shardway/admin/client"
	"shardway/config"
)

// target is what every command has that asks a node.
type target struct {
	Admin string `help:"Admin address of a node; any node will do (else SHARDWAY_ADMIN, else 127.0.0.1:8081)." placeholder:"ADDR"`
	JSON  bool   `help:"Write JSON."                                                                         name:"json"`
	credentials
}

// client returns a client for the node that is meant.
func (t *target) client(s *session) (*client.Client, error) { return t.clientOf(s, "") }

// clientOf is client for an address that the given flag contains; empty means --admin.
func (t *target) clientOf(s *session, flag string) (*client.Client, error) {
	addr := t.Admin
	if addr == "" {
		addr = variable(s.environ, "SHARDWAY_ADMIN")
	}
	if addr == "" {
		c := config.Default()
		addr = c.Admin
	}
	show, err := t.show(s)
	if err != nil {
		return nil, err
	}
	show.Flag = flag
	client, err := client.NewWith(addr, show)
	if err != nil { // the address is none, or does not go with the flags beside it
		return nil, misuse(err.Error())
	}
	return client, nil
}

// variable returns the value of an environment variable, the last one if it is
// there more than once.
func variable(environ []string, name string) string {
	for _, kv := range slices.Backward(environ) {
		if value, ok := strings.CutPrefix(kv, name+"="); ok {
			return value
		}
	}
	return ""
}

// writeJSON writes v for programs.
func writeJSON(w io.Writer, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}
