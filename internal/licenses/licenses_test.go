// Package licenses_test checks THIRD_PARTY_LICENSES, which contains the licences of all
// modules in the binary. After a change of dependencies, run
//
//	go test ./internal/licenses -update
package licenses_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write THIRD_PARTY_LICENSES anew")

const file = "../../THIRD_PARTY_LICENSES"

// module is one whose code is in the binary.
type module struct{ Path, Version, Dir string }

// modules asks the go command what the program is made of.
func modules(t *testing.T) []module {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=Module", ".", "./embed")
	cmd.Dir = "../.."
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.Bytes())
	}
	seen := map[string]bool{"shardway": true}
	var all []module
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct{ Module *module }
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if p.Module != nil && !seen[p.Module.Path] {
			seen[p.Module.Path] = true
			all = append(all, *p.Module)
		}
	}
	slices.SortFunc(all, func(a, b module) int { return cmp.Compare(a.Path, b.Path) })
	return all
}

// text returns what a module says about its licence: the licence, and a notice
// that has to be passed on.
func text(t *testing.T, m module) string {
	t.Helper()
	var b strings.Builder
	for _, pattern := range []string{"LICENSE*", "LICENCE*", "COPYING*", "NOTICE*"} {
		found, err := filepath.Glob(filepath.Join(m.Dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(strings.ReplaceAll(string(content), "\r\n", "\n")) {
				b.WriteString(strings.TrimRight(line, " \t\n") + "\n")
			}
		}
	}
	if b.Len() == 0 {
		t.Errorf("%s %s has no licence: may it be used?", m.Path, m.Version)
	}
	return strings.Trim(b.String(), "\n") + "\n"
}

func goroot(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func TestLicencesOfWhatIsInTheBinaryAreThere(t *testing.T) {
	var names, texts []string
	for _, m := range modules(t) {
		l := text(t, m)
		name := m.Path + " " + m.Version
		if i := slices.Index(texts, l); i >= 0 { // the same words for several
			names[i] += "\n" + name
			continue
		}
		names, texts = append(names, name), append(texts, l)
	}
	rule := strings.Repeat("=", 78)
	var b strings.Builder
	b.WriteString("Licences of the software of others that is in the shardway binary.\nThe sources are at the paths named here.\n")
	for i := range names {
		fmt.Fprintf(&b, "\n%s\n%s\n%s\n\n%s", rule, names[i], rule, texts[i])
	}
	if *update {
		// Go's own comes last and is not compared: each release may word it anew.
		l := text(t, module{Path: "Go", Version: runtime.Version(), Dir: goroot(t)})
		all := fmt.Sprintf("%s\n%s\nGo standard library and runtime\n%s\n\n%s", b.String(), rule, rule, l)
		if err := os.WriteFile(file, []byte(all), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.SplitSeq(strings.Join(names, "\n"), "\n") {
		if !strings.Contains(string(have), "\n"+name+"\n") {
			t.Errorf("THIRD_PARTY_LICENSES lacks %s: run go test ./internal/licenses -update", name)
		}
	}
	if !t.Failed() && !strings.HasPrefix(string(have), b.String()) {
		t.Error("THIRD_PARTY_LICENSES names what is in the binary no more, or other words: run go test ./internal/licenses -update")
	}
}
