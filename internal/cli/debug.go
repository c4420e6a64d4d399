package cli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"shardway/admin/client"
	"shardway/config"
	"shardway/internal/version"
)

// logTail is how much of a log goes into a bundle, in bytes, from its end.
const logTail = 1 << 20

type debugCommand struct {
	Output string `help:"File to write (else shardway-debug-NODE-TIME.tar.gz)." placeholder:"FILE" short:"o" type:"path"`
	Config string `help:"Settings to include: the file and variables of the node, by name only where they are secret." placeholder:"FILE" type:"path"`
	Log    string `help:"Log to include, its last MiB." placeholder:"FILE" type:"path"`
	target
}

// Help tells what is in it and what is not.
func (c *debugCommand) Help() string {
	return `Writes one archive for a bug report. It contains status, nodes, map, endpoints, policy,
upgrade, settings, load, the state of the app, events, metrics, goroutines and versions,
and with --config and --log the configuration and the log. Read the archive before you
send it: it contains addresses, node IDs and log text. It contains no secrets, tokens,
private keys or keys of requests.`
}

// bundled are the answers that go into a bundle, by file.
func bundled() []struct{ file, path string } {
	return []struct{ file, path string }{
		{"status.json", "/status"},
		{"nodes.json", "/v1/nodes"},
		{"map.json", "/v1/map"},
		{"endpoints.json", "/v1/endpoints"},
		{"policy.json", "/v1/policy"},
		{"upgrade.json", "/v1/upgrade"},
		{"cluster-settings.json", "/v1/settings"},
		{"owned.json", "/v1/owned"},
		{"events.json", "/v1/events?wait=0"},
		{"running.json", "/v1/running"},
		{"websockets.json", "/v1/websockets"},
		{"plan.json", "/v1/plan"},
		{"metrics.txt", "/metrics"},
		{"goroutines.txt", "/debug/pprof/goroutine?debug=1"},
	}
}

// member is a file of a bundle.
type member struct {
	name    string
	content []byte
}

// Run writes the bundle. What cannot be had is left out, and errors.txt says why; a node
// that does not answer at all is an error.
func (c *debugCommand) Run(ctx context.Context, s *session) error {
	client, err := c.client(s)
	if err != nil {
		return err
	}
	defer client.Close()
	st, err := client.Status(ctx)
	if err != nil {
		return err
	}
	hidden := &redaction{}
	all, failed := c.gather(ctx, s, client, hidden)
	if len(failed) > 0 {
		all = append(all, member{"errors.txt", []byte(strings.Join(failed, "\n") + "\n")})
	}
	now := time.Now()
	name := c.Output
	if name == "" {
		name = fmt.Sprintf("shardway-debug-%s-%s.tar.gz", fileName(st.Node), now.UTC().Format("20060102T150405Z"))
	}
	for i := range all {
		all[i].content = hidden.clean(all[i].content)
	}
	b, err := pack(all, now)
	if err != nil {
		return err
	}
	if err = replaceFile(name, b); err != nil {
		return fmt.Errorf("bundle not written: %w", err)
	}
	if c.JSON {
		return writeJSON(s.out, bundle{File: name, Bytes: len(b), Missing: append([]string{}, failed...)})
	}
	_, err = fmt.Fprintf(s.out, "%s: %d files, %d bytes; look through it before you send it\n", name, len(all), len(b))
	return err
}

// bundle is the JSON of one that was written.
type bundle struct {
	File    string   `json:"file"`
	Bytes   int      `json:"bytes"`
	Missing []string `json:"missing"` // what could not be had, and why
}

func (c *debugCommand) gather(ctx context.Context, s *session, client *client.Client, hidden *redaction) (all []member, failed []string) {
	add := func(name string, content []byte, err error) {
		if err != nil {
			failed = append(failed, name+": "+clean(err.Error()))
			return
		}
		all = append(all, member{name, content})
	}
	text, err := json.MarshalIndent(version.Read(), "", "  ")
	add("version.json", text, err)
	for _, x := range bundled() {
		text, err = client.Fetch(ctx, x.path)
		add(x.file, text, err)
	}
	hot, err := client.Hot(ctx)
	for i := range hot.Keys {
		hot.Keys[i].Key = ""
	}
	if err == nil {
		text, err = json.MarshalIndent(hot, "", "  ")
	}
	add("hot.json", text, err)
	if show, unread := c.show(s); unread == nil {
		hidden.add([]byte(show.Token))
	}
	settings, err := c.settings(s, hidden)
	add("settings.json", settings, err)
	if c.Log != "" {
		text, err = tailOf(c.Log, logTail)
		add("log.txt", text, err)
	}
	return all, failed
}

// settings are those that a node here would have, with what is wrong with them. The files
// that they name for a secret are read, to find in what else it may stand.
func (c *debugCommand) settings(s *session, hidden *redaction) ([]byte, error) {
	var args []string
	if c.Config != "" {
		args = []string{"--config", c.Config}
	}
	cfg, err := config.Load(args, s.environ, os.ReadFile)
	for _, file := range []string{cfg.SecretFile, cfg.AdminReadTokenFile, cfg.AdminWriteTokenFile, cfg.TLSKey, cfg.TLSNodeKey, cfg.AdminKey} {
		if file == "" {
			continue
		}
		content, unread := os.ReadFile(file) //nolint:gosec // the node's own
		if unread != nil && !strings.ContainsAny(file, "/.") {
			content = []byte(file) // what belongs into the file, it may be
		}
		hidden.add(content)
	}
	r := report{OK: err == nil, Values: cfg.Values(), Explanation: cfg.Explain(), Problems: []config.Problem{}}
	if wrong, ok := err.(*config.Error); ok { //nolint:errorlint // Load returns it as it is
		r.Problems = wrong.Problems
	}
	return json.MarshalIndent(r, "", "  ")
}

// leastSecret is the length from which a word counts as one: no secret and no token is
// shorter, and names beside them may be.
const leastSecret = 16

// removed stands where a secret stood.
const removed = "[removed]"

// redaction takes words out that must not be told.
type redaction struct{ words [][]byte }

// add has every word of a file taken out that is long enough, as it is and as JSON has it,
// and what a colon or a comma parts in it.
func (r *redaction) add(file []byte) {
	parts := slices.Concat(bytes.Fields(file), bytes.FieldsFunc(file, func(c rune) bool { return c <= ' ' || c == ':' || c == ',' }))
	for _, word := range parts {
		inJSON, err := json.Marshal(string(word))
		for _, w := range [][]byte{word, bytes.Trim(inJSON, `"`)} {
			if err == nil && len(w) >= leastSecret && !slices.ContainsFunc(r.words, func(known []byte) bool { return bytes.Equal(known, w) }) {
				r.words = append(r.words, w)
			}
		}
	}
}

// clean takes out those words, and whatever shows by itself that it is a secret of a
// cluster, a token or a password in a URL, be it one that no file has any more.
func (r *redaction) clean(content []byte) []byte {
	for _, word := range r.words {
		content = bytes.ReplaceAll(content, word, []byte(removed))
	}
	for shape, instead := range map[string]string{
		`sw1_[\w-]{16,}`:              removed,
		`(?i)\bbearer +[^\s"]+`:       "Bearer " + removed,
		`://[^\s"/@]*:[^\s"/@]*@(\S)`: "://" + removed + "@$1",
	} {
		content = regexp.MustCompile(shape).ReplaceAll(content, []byte(instead))
	}
	return content
}

// pack makes the archive.
func pack(all []member, now time.Time) ([]byte, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	t := tar.NewWriter(z)
	for _, m := range all {
		if err := t.WriteHeader(&tar.Header{Name: "shardway-debug/" + m.name, Mode: 0o600, Size: int64(len(m.content)), ModTime: now}); err != nil {
			return nil, err
		}
		if _, err := t.Write(m.content); err != nil {
			return nil, err
		}
	}
	if err := t.Close(); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// tailOf returns the end of a file, from the beginning of a line.
func tailOf(name string, most int64) ([]byte, error) {
	f, err := os.Open(name) //nolint:gosec // the operator names it
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	from := max(st.Size()-most, 0)
	b, err := io.ReadAll(io.NewSectionReader(f, from, most))
	if _, rest, found := bytes.Cut(b, []byte("\n")); from > 0 && found {
		b = rest
	}
	return b, err
}

// fileName keeps of a node's id what may stand in a file's name.
func fileName(id string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' || r == '_' {
			return r
		}
		return '-'
	}, id)
}
