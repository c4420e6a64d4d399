//go:build linux

package recipes_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tomcat is the directory of Debian's package tomcat10-common.
const tomcat = "/usr/share/tomcat10"

// TestServletSessionsStayWithTheirInstance runs Tomcat with its sessions in memory.
func TestServletSessionsStayWithTheirInstance(t *testing.T) {
	t.Parallel() // it waits most of the time
	java := findProgram(t, "java")
	findProgram(t, tomcat+"/bin/catalina.sh")
	classpath := strings.Join([]string{tomcat + "/bin/bootstrap.jar", tomcat + "/bin/tomcat-juli.jar"}, ":")
	w := startWorld(t, func(id string, port int, dir string) (args, env []string) {
		must(t, os.CopyFS(dir, os.DirFS("testdata/servlet")))
		for _, name := range []string{"temp", "work", "logs"} {
			must(t, os.Mkdir(filepath.Join(dir, name), 0o700))
		}
		return []string{
			java, "-Xmx96m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", classpath, "-Dcatalina.home=" + tomcat, "-Dcatalina.base=" + dir,
			"-Djava.io.tmpdir=" + filepath.Join(dir, "temp"), fmt.Sprint("-Dport=", port), "org.apache.catalina.startup.Bootstrap", "start",
		}, []string{"INSTANCE=" + id}
	}, "--key=wrap:cookie:JSESSIONID,mint")
	checkCookieSessions(t, w, "/visit.jsp")
}
