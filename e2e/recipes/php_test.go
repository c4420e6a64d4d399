//go:build linux

package recipes_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestPHPSessionsStayWithTheirInstance runs PHP with file sessions. Each instance has its own directory.
func TestPHPSessionsStayWithTheirInstance(t *testing.T) {
	t.Parallel() // it waits most of the time
	php := findProgram(t, "php")
	root, err := filepath.Abs("testdata/php")
	must(t, err)
	w := startWorld(t, func(id string, port int, dir string) (args, env []string) {
		sessions := filepath.Join(dir, "sessions")
		must(t, os.Mkdir(sessions, 0o700))
		return []string{php, "-d", "session.save_path=" + sessions, "-d", "session.use_strict_mode=1", "-S", fmt.Sprint("127.0.0.1:", port), "-t", root}, []string{"INSTANCE=" + id, "PHP_CLI_SERVER_WORKERS=2"}
	}, "--key=wrap:cookie:PHPSESSID,mint")
	checkCookieSessions(t, w, "/visit.php")
}
