package cli

import (
	"encoding/json"
	"io"
	"slices"
	"strings"

	"shardway/admin/client"
	"shardway/config"
	"shardway/internal/logsafe"
)

// target contains the common flags of commands that send requests to a node.
type target struct {
	Admin string `help:"Admin address of a node; any node will do (else SHARDWAY_ADMIN, else 127.0.0.1:8081)." placeholder:"ADDR"`
	JSON  bool   `help:"Write JSON."                                                                         name:"json"`
	credentialFlags
}

// reasonFlag is the flag --reason of commands that change the cluster.
type reasonFlag struct {
	Reason string `help:"Reason for the log and the event, up to 200 bytes; policy shows it while the action is in force." placeholder:"TEXT"`
}

// client returns a client for the admin port of the node.
func (t *target) client(session *session) (*client.Client, error) { return t.clientOf(session, "") }

// clientOf is client for an address that the given flag contains; empty means --admin.
func (t *target) clientOf(session *session, flagName string) (*client.Client, error) {
	addr := t.Admin
	if addr == "" {
		addr = variable(session.environ, "SHARDWAY_ADMIN")
	}
	if addr == "" {
		defaults := config.Default()
		addr = defaults.Admin
	}
	credentials, err := t.load(session)
	if err != nil {
		return nil, err
	}
	credentials.FlagName = flagName
	client, err := client.NewWithCredentials(addr, credentials)
	if err != nil { // the address is invalid, or contradicts other flags
		return nil, usageError(err.Error())
	}
	return client, nil
}

// variable returns the value of an environment variable, or "" if it is not set. The last of several
// values applies.
func variable(environ []string, name string) string {
	for _, assignment := range slices.Backward(environ) {
		if value, ok := strings.CutPrefix(assignment, name+"="); ok {
			return value
		}
	}
	return ""
}

// writeJSON prints value as indented JSON. It escapes all characters that control a terminal, not only those that JSON
// requires to be escaped.
func writeJSON(w io.Writer, value any) error {
	data, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	_, err = logsafe.NewEscaper(w).Write(append(data, '\n'))
	return err
}

// writeJSONLine prints value as one line of JSON, with the escapes of writeJSON.
func writeJSONLine(w io.Writer, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	_, err = logsafe.NewEscaper(w).Write(append(data, '\n'))
	return err
}
