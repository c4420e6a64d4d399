package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"shardway/admin/client"
	"shardway/config"
	"shardway/internal/cli/bundle"
	"shardway/internal/version"
)

// maxLogBytes is the maximum size of the end of the log in a bundle.
const maxLogBytes = 1 << 20

type debugCommand struct {
	Output string `help:"File to write (else shardway-debug-NODE-TIME.tar.gz)." placeholder:"FILE" short:"o" type:"path"`
	Config string `help:"Configuration file to include, with the node's variables; secrets only by name." placeholder:"FILE" type:"path"`
	Log    string `help:"Log file whose last MiB is included." placeholder:"FILE" type:"path"`
	target
}

// Help lists the contents of the archive.
func (c *debugCommand) Help() string {
	return `Writes one archive for a bug report. It contains status, nodes, map, endpoints, policy,
upgrade, settings, load, the state of the app, events, metrics, goroutines and versions,
and with --config and --log the configuration and the log. Read the archive before you
send it: it contains addresses, node IDs and log text. It contains no secrets, tokens,
private keys or keys of requests.`
}

// bundleRequests returns the requests whose responses the bundle contains.
func bundleRequests() []struct{ file, path string } {
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
		{"services.json", "/v1/services"},
		{"joins.json", "/v1/joins"},
		{"plan.json", "/v1/plan"},
		{"metrics.txt", "/metrics"},
		{"goroutines.txt", "/debug/pprof/goroutine?debug=1"},
	}
}

// Run writes the bundle. If a request fails, the bundle contains the error in errors.txt instead of
// the response. If the first request fails, Run returns an error.
func (c *debugCommand) Run(ctx context.Context, session *session) error {
	client, err := c.client(session)
	if err != nil {
		return err
	}
	defer client.Close()
	status, err := client.Status(ctx)
	if err != nil {
		return err
	}
	secrets := &bundle.Redactor{}
	files, missing := c.collect(ctx, session, client, secrets)
	if len(missing) > 0 {
		files = append(files, bundle.File{Name: "errors.txt", Content: []byte(strings.Join(missing, "\n") + "\n")})
	}
	now := time.Now()
	name := c.Output
	if name == "" {
		name = fmt.Sprintf("shardway-debug-%s-%s.tar.gz", bundle.SafeFileName(status.Node), now.UTC().Format("20060102T150405Z"))
	}
	for i := range files {
		files[i].Content = secrets.Redact(files[i].Content)
	}
	archive, err := bundle.Pack(files, now)
	if err != nil {
		return err
	}
	if err = replaceFile(name, archive); err != nil {
		return fmt.Errorf("bundle not written: %w", err)
	}
	if c.JSON {
		return writeJSON(session.out, debugResult{File: name, Bytes: len(archive), Missing: append([]string{}, missing...)})
	}
	_, err = fmt.Fprintf(session.out, "%s: %d files, %d bytes; look through it before you send it\n", name, len(files), len(archive))
	return err
}

// debugResult is the JSON output of the command.
type debugResult struct {
	File    string   `json:"file"`
	Bytes   int      `json:"bytes"`
	Missing []string `json:"missing"` // missing files, with the errors
}

// collect returns the files of the bundle, and for each file that is missing its name and the error. It
// adds the secrets of this machine to the redactor.
func (c *debugCommand) collect(ctx context.Context, session *session, client *client.Client, secrets *bundle.Redactor) (files []bundle.File, missing []string) {
	addFile := func(name string, content []byte, err error) {
		if err != nil {
			missing = append(missing, name+": "+sanitize(err.Error()))
			return
		}
		files = append(files, bundle.File{Name: name, Content: content})
	}
	text, err := json.MarshalIndent(version.Read(), "", "  ")
	addFile("version.json", text, err)
	for _, request := range bundleRequests() {
		text, err = client.Fetch(ctx, request.path)
		addFile(request.file, text, err)
	}
	hot, err := client.Hot(ctx)
	for i := range hot.Keys {
		hot.Keys[i].Key = ""
	}
	if err == nil {
		text, err = json.MarshalIndent(hot, "", "  ")
	}
	addFile("hot.json", text, err)
	if credentials, loadErr := c.load(session); loadErr == nil {
		secrets.Add([]byte(credentials.Token))
	}
	settings, err := c.settings(session, secrets)
	addFile("settings.json", settings, err)
	if c.Log != "" {
		text, err = bundle.ReadTail(c.Log, maxLogBytes)
		addFile("log.txt", text, err)
	}
	return files, missing
}

// settings returns the settings that a node would have on this machine, with their errors. It adds
// the content of all secret files, and the fields of health checks, to the redactor, because other
// files may contain the same secrets.
func (c *debugCommand) settings(session *session, secrets *bundle.Redactor) ([]byte, error) {
	var args []string
	if c.Config != "" {
		args = []string{"--config", c.Config}
	}
	cfg, err := config.Load(args, session.environ, os.ReadFile)
	for _, file := range []string{cfg.SecretFile, cfg.AdminReadTokenFile, cfg.AdminWriteTokenFile, cfg.TLSKey, cfg.TLSNodeKey, cfg.AdminKey} {
		if file == "" {
			continue
		}
		content, readErr := os.ReadFile(file) //nolint:gosec // a file of the node
		if readErr != nil && !strings.ContainsAny(file, "/.") {
			content = []byte(file) // the user may have specified the secret itself
		}
		secrets.Add(content)
	}
	for _, text := range cfg.HealthHeaders { // a header field may contain the credentials of the app
		if _, fieldValue, isField := strings.Cut(text, ":"); isField {
			text = fieldValue
		}
		secrets.Add([]byte(text))
	}
	report := checkReport{OK: err == nil, Values: cfg.Values(), Explanation: cfg.Explain(), Problems: []config.Problem{}}
	if configErr, ok := err.(*config.Error); ok { //nolint:errorlint // Load returns it as it is
		report.Problems = configErr.Problems
	}
	return json.MarshalIndent(report, "", "  ")
}
