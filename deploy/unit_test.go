// Package deploy_test checks that the files for deployments agree with the program.
package deploy_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"shardway/config"
)

// read returns a file of this directory.
func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.FromSlash(name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// unit returns a setting of the systemd unit. It fails the test unless the unit has it once.
func unit(t *testing.T, key string) string {
	t.Helper()
	all := regexp.MustCompile(`(?m)^`+key+`=(.*)$`).FindAllStringSubmatch(read(t, "systemd/shardway.service"), -1)
	if len(all) != 1 {
		t.Fatalf("the unit has %s %d times", key, len(all))
	}
	return all[0][1]
}

// load returns the configuration for a command line, an environment and files.
func load(t *testing.T, args, environ []string, files map[string]string) config.Config {
	t.Helper()
	c, err := config.Load(args, environ, func(name string) ([]byte, error) {
		if text, ok := files[name]; ok {
			return []byte(text), nil
		}
		return nil, os.ErrNotExist
	})
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return c
}

func TestSystemdAcceptsUnit(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skipf("systemd-analyze is not installed: %v", err)
	}
	text := read(t, "systemd/shardway.service")
	installed, err := os.Executable() // the program in the unit may not be installed
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "shardway.service")
	if err = os.WriteFile(path, []byte(strings.Replace(text, "/usr/local/bin/shardway", installed, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--man=no", path).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

// The program accepts the command line of the unit together with the configuration file, and the limits
// of the unit are high enough for these settings.
func TestUnitMatchesConfiguration(t *testing.T) {
	args := strings.Fields(unit(t, "ExecStart"))[2:]
	c := load(t, args, nil, map[string]string{"/etc/shardway/shardway.yaml": read(t, "systemd/shardway.yaml")})
	if c.OnShutdown != config.OnShutdownHold || c.Data != "/var/lib/"+unit(t, "StateDirectory") {
		t.Errorf("on_shutdown %q, data in %s", c.OnShutdown, c.Data)
	}
	if name, _, _ := strings.Cut(unit(t, "LoadCredential"), ":"); c.SecretFile != "${CREDENTIALS_DIRECTORY}/"+name {
		t.Errorf("the secret file is %s", c.SecretFile)
	}
	if stop, err := time.ParseDuration(unit(t, "TimeoutStopSec")); err != nil || stop < c.ShutdownTimeout+5*time.Second {
		t.Errorf("systemd waits %v (%v) for the exit, shutdown-timeout is %v", stop, err, c.ShutdownTimeout)
	}
	// Each client connection may need a connection to the app, or to another node.
	if files, err := strconv.Atoi(unit(t, "LimitNOFILE")); err != nil || files < 2*(c.MaxConns+c.MaxUpstreamConns+c.MaxStreams) {
		t.Errorf("LimitNOFILE %d, %v", files, err)
	}
	var wrong *config.Error
	if _, err := config.Load([]string{"--no-such"}, nil, os.ReadFile); !errors.As(err, &wrong) || unit(t, "RestartPreventExitStatus") != "2" {
		t.Errorf("an invalid configuration returns %v; the unit must not restart after exit code 2", err)
	}
}
