package cli_test

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shardway/admin"
	"shardway/admin/api"
	"shardway/admin/apitest"
	"shardway/admin/auth"
	"shardway/internal/cli"
	"shardway/internal/secret"
)

// rotating is a cluster that can rotate its secret.
type rotating struct{ cluster }

func (*rotating) Rotate(_ context.Context, by string) (api.Rotation, error) {
	return api.Rotation{Secret: "c0ffee", Nodes: []string{"a", "b"}}, nil
}

func put(t *testing.T, name, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestKeygenMakesAFileThatANodeTakes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644) // as a shell redirection does
	if err != nil {
		t.Fatal(err)
	}
	var errOut strings.Builder
	if code := cli.Run(t.Context(), []string{"keygen"}, nil, f, &errOut); code != 0 {
		t.Fatalf("exit %d: %s", code, errOut.String())
	}
	if err = f.Close(); err != nil {
		t.Fatal(err)
	}
	if l, err := secret.ReadFile(path); err != nil || len(l) != 1 || l[0].Made().IsZero() {
		t.Errorf("read back %v, %v", l, err)
	}
	_, first, _ := run(t, "keygen --token")
	_, second, _ := run(t, "keygen --token")
	if all, err := auth.ParseTokens([]byte(first + second)); err != nil || len(all) != 2 || first == second {
		t.Errorf("tokens %q, %q: %v", first, second, err)
	}
}

func TestRotateListsNodesWithTheNewSecret(t *testing.T) {
	code, out, errOut := run(t, "rotate-secret --admin "+serveAny(t, admin.Options{API: apitest.SetOf(&rotating{})}))
	if code != 0 || out != "secret c0ffee is the only one on a, b\n" {
		t.Errorf("exit %d: %s%s", code, out, errOut)
	}
	code, _, errOut = run(t, "rotate-secret --admin "+serve(t, &cluster{}))
	if code != 1 || !strings.Contains(errOut, "cannot rotate") {
		t.Errorf("a node without: exit %d: %s", code, errOut)
	}
}

// serveAny starts an admin port and returns its address.
func serveAny(t *testing.T, o admin.Options) string {
	t.Helper()
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- admin.New(o).Serve(ctx, ln) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}

func TestCommandsShowAToken(t *testing.T) {
	const token = "0123456789abcdefghijklmn"
	all, err := auth.ParseTokens([]byte(token))
	if err != nil {
		t.Fatal(err)
	}
	addr := serveAny(t, admin.Options{API: apitest.SetOf(&cluster{}), Access: auth.Access{Read: all}})
	good := put(t, "token", "# mine\nme "+token+"\n", 0o600)
	open := put(t, "token", token, 0o644)
	for _, tt := range []struct {
		line, environ string
		code          int
		says          string
	}{
		{"status --token-file " + good, "", 0, ""},
		{"status", "SHARDWAY_TOKEN_FILE=" + good, 0, ""},
		{"status", "SHARDWAY_ADMIN_READ_TOKEN_FILE=" + good, 0, ""},
		{"status", "", 1, "--token-file FILE"},
		{"step-down --token-file " + good, "", 1, "may read but not write"},
		{"status --token-file " + open, "", 1, "chmod 600"},
		{"status --token-file " + good + "x", "", 1, "no such file"},
		{"status --tls-cert x", "", 2, "must be given together"},
		{"status --tls-ca " + good, "", 1, "--tls-ca"},
	} {
		code, _, errOut := run(t, tt.line+" --admin "+addr, tt.environ)
		if code != tt.code || !strings.Contains(errOut, tt.says) || strings.Contains(errOut, token) {
			t.Errorf("%s %s: exit %d: %s", tt.line, tt.environ, code, errOut)
		}
	}
}

func TestUnusableSecurityFilesStopTheNodeAndTheCheck(t *testing.T) {
	open := put(t, "secret", string(secret.List{secret.Generate(time.Unix(9e8, 0))}.Text()), 0o644)
	for _, tt := range []struct{ flags, says string }{
		{"--secret-file " + open, "chmod 600 " + open},
		{"--secret-file " + open + "x", "no such file or directory; copy the cluster's secret file there, or create a new one: shardway keygen > " + open + "x"},
		{"--secret-file " + put(t, "s", "hunter2", 0o600), "not a secret"},
		{"--admin-write-token-file " + put(t, "t", "short", 0o600), "has 5 characters"},
		{"--admin-write-token-file " + open + "x", "no such file or directory; create one: shardway keygen --token > " + open + "x"},
	} {
		code, out, errOut := run(t, "check "+tt.flags)
		if code != 2 || !strings.Contains(out, tt.says) {
			t.Errorf("check %s: exit %d: %s%s", tt.flags, code, out, errOut)
		}
		args := "run --data=" + filepath.Join(t.TempDir(), "data") + " " + tt.flags
		code, _, errOut = run(t, args)
		if code != 1 || !strings.Contains(errOut, tt.says) || strings.Contains(errOut, "hunter2") {
			t.Errorf("run %s: exit %d: %s", tt.flags, code, errOut)
		}
	}
}

// One run reports all unusable files, in addition to other invalid settings. Otherwise, an operator
// would have to start the node once for each error.
func TestCheckNamesEveryUnusableFile(t *testing.T) {
	code, out, errOut := run(t, "check --lease=5 --secret-file=no-a --tls-cert=no-b --tls-key=no-b --admin-read-token-file=no-c --admin-write-token-file=no-d --admin-cert=no-e --admin-key=no-e --admin-read-ca=no-f")
	if code != 2 || strings.Count(out, "\n") != 7 {
		t.Errorf("exit %d: %s%s", code, out, errOut)
	}
	for _, says := range []string{`lease = "5" (flag)`, `secret-file = "no-a"`, `tls-cert = "no-b"`, `admin-read-token-file = "no-c"`, `admin-write-token-file = "no-d"`, `admin-cert = "no-e"`, `admin-read-ca = "no-f"`} {
		if !strings.Contains(out, says) {
			t.Errorf("not named: %s\n%s", says, out)
		}
	}
	if code, out, _ := run(t, "check --tls-cert=alone"); code != 2 || strings.Count(out, "tls-cert = ") != 1 {
		t.Errorf("a certificate without a key: exit %d: %s", code, out)
	}
}

// A node runs with a secret and an admin port that requires tokens.
func TestRunWithASecretAndTokens(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "secret")
	if err := secret.WriteFile(file, secret.List{secret.Generate(time.Unix(9e8, 0))}); err != nil {
		t.Fatal(err)
	}
	const token = "0123456789abcdefghijklmn"
	tokens := put(t, "token", "me "+token, 0o600)
	n := start(t, app(t), "--secret-file="+file, "--admin-write-token-file="+tokens)
	n.get(t, "http://"+n.probes+"/readyz", http.StatusOK)
	n.get(t, "http://"+n.admin+"/status", http.StatusUnauthorized)
	code, out, errOut := run(t, "rotate-secret --admin "+n.admin+" --token-file "+tokens)
	if code != 0 || !strings.Contains(out, "is the only one on solo") {
		t.Errorf("rotate-secret: exit %d: %s%s", code, out, errOut)
	}
	if code := n.finish(t); code != 0 {
		t.Errorf("exit %d\n%s", code, n.log.String())
	}
	if log := n.log.String(); !strings.Contains(log, "token me from") || strings.Contains(log, token) || strings.Contains(log, "sw1_") {
		t.Errorf("the log misses who it was, or holds a secret:\n%s", log)
	}
}
