package cli_test

import (
	"archive/tar"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// files returns the contents of a bundle by file name.
func files(t *testing.T, name string) map[string]string {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimPrefix(h.Name, "shardway-debug/")] = string(b)
	}
}

// The bundle of a real node contains its state, but neither its secret nor its token, although both
// are in its settings and in its log.
func TestBundleContainsStateAndNoSecret(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, secret, _ := run(t, "keygen")
	token := base64.RawURLEncoding.EncodeToString([]byte("a token of thirty-two bytes, all"))
	credentials := base64.StdEncoding.EncodeToString([]byte("probe:health checks only"))
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	secretFile, tokenFile := write("secret", secret), write("token", "me "+token+"\n")
	settings := write("s.yaml", "secret_file: "+secretFile+"\nadmin_write_token_file: "+tokenFile+"\nzone: east\nupstream: http://a\nhealth: /h\nhealth_header: ['Authorization: Basic "+credentials+"']\n")
	log := write("log", strings.Repeat("an old line\n", 200_000)+"GET /?token="+token+"\n"+secret+"the last line\n")
	n := start(t, app(t), "--admin-write-token-file="+tokenFile)
	n.get(t, "http://"+n.listen+"/", 200)
	out := filepath.Join(dir, "b.tar.gz")
	code, said, errOut := run(t, "debug -o "+out+" --admin="+n.admin+" --token-file="+tokenFile+" --config="+settings+" --log="+log)
	if code != 0 || !strings.HasPrefix(said, out+": ") {
		t.Fatalf("exit %d, %s%s", code, said, errOut)
	}
	all := files(t, out)
	for name, want := range map[string]string{
		"version.json": `"platform"`, "status.json": `"node":"solo"`, "nodes.json": `"solo"`, "map.json": `"owners"`, "endpoints.json": `"http"`,
		"policy.json": `"pins"`, "upgrade.json": `"in_force"`, "cluster-settings.json": `"lease"`, "owned.json": `"shards"`, "hot.json": `"keys"`, "events.json": `"kind":"map-committed"`, "running.json": `"nodes"`, "websockets.json": `"shards"`,
		"plan.json": `{`, "metrics.txt": "shardway_epoch", "goroutines.txt": "goroutine profile", "settings.json": `"value": "east"`, "log.txt": "the last line",
	} {
		if !strings.Contains(all[name], want) {
			t.Errorf("%s lacks %s: %.300s", name, want, all[name])
		}
	}
	if all["errors.txt"] != "" {
		t.Errorf("missing: %s", all["errors.txt"])
	}
	if got := len(all["log.txt"]); got > 1<<20 || !strings.HasPrefix(all["log.txt"], "an old line\n") {
		t.Errorf("%d bytes of the log, which begin with %.20q", got, all["log.txt"])
	}
	hidden := append(strings.Fields(secret), token, credentials)
	for name, text := range all {
		for _, word := range hidden {
			if len(word) >= 16 && strings.Contains(text, word) {
				t.Errorf("%s has a secret in it", name)
			}
		}
	}
	if code := n.finish(t); code != 0 {
		t.Errorf("exit %d after being told to stop", code)
	}
}

// Secrets may be in unexpected places: instead of a file name, in a log from before their replacement,
// or in an address. A token may contain a colon or characters that JSON escapes.
func TestBundleContainsNoMisplacedSecret(t *testing.T) {
	dir := t.TempDir()
	_, file, _ := run(t, "keygen")
	made := strings.Fields(file)
	secret := made[slices.IndexFunc(made, func(w string) bool { return strings.HasPrefix(w, "sw1_") })]
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	const token, former = `half:of&a<token,and:the"rest`, "AnOldTokenThatNoFileHasAnyMore0"
	tokenFile := write("token", token+"\n")
	settings := write("s.yaml", "secret: "+secret+"\nupstream: http://me:hunter2@10.0.0.9:80\nadmin_write_token: "+former+"\n")
	log := write("log", `{"secret":"`+secret+`"}`+"\nAuthorization: Bearer "+former+"\n"+`{"what":"half:of\u0026a\u003ctoken,and:the\"rest"}`+"\n"+token+"\n")
	out := filepath.Join(dir, "b.tar.gz")
	code, _, errOut := run(t, "debug -o "+out+" --token-file="+tokenFile+" --config="+settings+" --log="+log+" --admin="+serve(t, &cluster{}),
		"SHARDWAY_SECRET="+secret, "SHARDWAY_SECRET_FILE="+secret, "SHARDWAY_ADMIN_READ_TOKEN="+former, "SHARDWAY_ADMIN_READ_TOKEN_FILE="+former)
	if code != 0 {
		t.Fatalf("exit %d, %s", code, errOut)
	}
	all := files(t, out)
	if !strings.Contains(all["settings.json"], `"key": "SHARDWAY_SECRET"`) || !strings.Contains(all["settings.json"], `"key": "secret"`) {
		t.Errorf("the mistakes are not there: %s", all["settings.json"])
	}
	for name, text := range all {
		for _, word := range []string{secret, former, token, "half:of", "hunter2"} {
			if strings.Contains(text, word) {
				t.Errorf("%s tells %s: %s", name, word, text)
			}
		}
	}
}

// A bundle lists the parts that are missing and contains the others. A node name cannot lead to a path
// outside the bundle.
func TestBundleListsMissingParts(t *testing.T) {
	t.Chdir(t.TempDir())
	code, said, errOut := run(t, "debug --json --log=/nonexistent --admin="+serve(t, &cluster{}))
	if code != 0 {
		t.Fatalf("exit %d, %s", code, errOut)
	}
	name, err := filepath.Glob("shardway-debug-a-*.tar.gz")
	if err != nil || len(name) != 1 {
		t.Fatalf("%v, %v; %s", name, err, said)
	}
	all := files(t, name[0])
	for _, want := range []string{"policy.json: ", "metrics.txt: ", "log.txt: "} {
		if !strings.Contains(all["errors.txt"], want) || !strings.Contains(said, want) {
			t.Errorf("errors lack %q: %s\n%s", want, all["errors.txt"], said)
		}
	}
	if all["status.json"] == "" {
		t.Error("there is no status")
	}
}
