package secret_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"shardway/internal/secret"
)

// known is a fixed secret. The keys derived from it are part of the protocol.
const known = "sw1_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh_e8189"

func mustParse(t *testing.T, text string) secret.List {
	t.Helper()
	l, err := secret.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestParseRestoresListFromText(t *testing.T) {
	a := secret.Generate(time.Date(2026, 1, 31, 12, 0, 0, 5, time.UTC))
	b := secret.Generate(time.Time{}).Rotated()
	text := secret.List{a, b}.Text()
	l := mustParse(t, string(text))
	if len(l) != 2 || !l[0].Equal(a) || !l[1].Equal(b) {
		t.Fatalf("read back %v, want %v and %v", l, a, b)
	}
	if got, want := l[0].Made(), time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC); !got.Equal(want) {
		t.Errorf("made = %v, want %v", got, want)
	}
	if !l[1].Made().IsZero() || l[0].ByRotation() || !l[1].ByRotation() {
		t.Errorf("made = %v, want zero; by rotation %v, %v", l[1].Made(), l[0].ByRotation(), l[1].ByRotation())
	}
	if a.Equal(b) || a.Fingerprint() == b.Fingerprint() {
		t.Error("two generated secrets are equal")
	}
}

func TestParseErrorsNameLineButNotItsText(t *testing.T) {
	long := strings.Repeat("x", 70<<10)
	var nine strings.Builder
	for range 9 {
		nine.WriteString(secret.Generate(time.Time{}).Line() + "\n")
	}
	for text, want := range map[string]string{
		"":                            "contains no secret",
		"# only comments\n\n":         "contains no secret",
		"hunter2":                     "line 1: not a secret",
		"\n# x\nhunter2 hunter3":      "line 3: not a secret",
		known[:len(known)-1]:          "damaged",
		known[:20] + "A" + known[21:]: "damaged",
		known + "\n" + known:          "line 2: duplicate secret",
		known + " made=yesterday":     "made=",
		known + " 2026-01-31":         "made=",
		known + " by=rotate made=":    "made=",
		long:                          "larger than",
		nine.String():                 "more than 8",
	} {
		_, err := secret.Parse([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%.30q) = %v, want an error with %q", text, err, want)
			continue
		}
		for _, word := range []string{"hunter", "AAECAwQ", "yesterday"} {
			if strings.Contains(err.Error(), word) {
				t.Errorf("Parse(%.30q) = %v: the error repeats the text", text, err)
			}
		}
	}
}

func TestPrintShowsFingerprintOnly(t *testing.T) {
	s := mustParse(t, known)[0]
	text := fmt.Sprint(s, secret.List{s}) + fmt.Sprintf("%v %+v %#v %s %q", s, s, s, s, s)
	if strings.Contains(text, "AAECAwQ") || strings.Contains(text, "[0 1 2") || strings.Contains(text, "0x1, 0x2") {
		t.Errorf("printed: %s", text)
	}
	if !strings.Contains(text, s.Fingerprint()) {
		t.Errorf("printed %s, want the fingerprint", text)
	}
}

func TestDerivedKeysAreFixed(t *testing.T) {
	s := mustParse(t, known)[0]
	const gossip = "9be99727ab18e73005854822d0081a88971bc7244a6589489646549beeb884b8"
	if got := hex.EncodeToString(s.GossipKey()); got != gossip {
		t.Errorf("gossip key = %s, want %s: nodes of two versions could not exchange gossip", got, gossip)
	}
	const print = "f6e15dc6d52d27ce"
	if got := s.Fingerprint(); got != print {
		t.Errorf("fingerprint = %s, want %s", got, print)
	}
	const ca = "3ecb62aa3f2599224940359a34ff356a30a09b4acb1ed744e828522f81febfc1"
	if got := fmt.Sprintf("%x", secret.AuthorityDigest(t, s)); got != ca {
		t.Errorf("authority = %s, want %s: nodes of two versions would reject each other", got, ca)
	}
}

func TestReadFileRefusesFileReadableByOthers(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such permission bits")
	}
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(known), 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, ok := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o640: false, 0o604: false, 0o620: false, 0o644: false} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		_, err := secret.ReadFile(path)
		if (err == nil) != ok {
			t.Errorf("mode %o: %v, want ok = %v", mode, err, ok)
		}
		if err != nil && !strings.Contains(err.Error(), "chmod 600 "+path) {
			t.Errorf("mode %o: %v: want the chmod command in the error", mode, err)
		}
	}
	for what, path := range map[string]string{"a missing file": path + "x", "a directory": filepath.Dir(path), "a device": "/dev/null"} {
		if _, err := secret.ReadFile(path); err == nil {
			t.Errorf("ReadFile of %s succeeded", what)
		}
	}
}

func TestWriteFileReplacesTargetOfLink(t *testing.T) {
	dir := t.TempDir()
	real, link := filepath.Join(dir, "real"), filepath.Join(dir, "link")
	if err := os.WriteFile(real, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	l := secret.List{secret.Generate(time.Now())}
	if err := secret.WriteFile(link, l); err != nil {
		t.Fatal(err)
	}
	st, err := os.Lstat(link)
	if err != nil || st.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is %v, %v", st.Mode(), err)
	}
	b, err := os.ReadFile(real)
	if err != nil || !bytes.Equal(b, l.Text()) {
		t.Errorf("file contains %q, %v", b, err)
	}
	if got, err := secret.ReadFile(link); err != nil || !got.Equal(l) {
		t.Errorf("read back %v, %v", got, err)
	}
	if rest, _ := filepath.Glob(filepath.Join(dir, ".secret-*")); len(rest) > 0 {
		t.Errorf("temporary files remain: %v", rest)
	}
	if err := secret.WriteFile(filepath.Join(dir, "none", "secret"), l); err == nil {
		t.Error("WriteFile into a missing directory succeeded")
	}
}

func TestWithFirstMovesSecretToFront(t *testing.T) {
	a, b, c := secret.Generate(time.Time{}), secret.Generate(time.Time{}), secret.Generate(time.Time{})
	l := secret.List{a}
	two := l.With(b)
	if len(l) != 1 || !two.Equal(secret.List{a, b}) || !two.With(a).Equal(two) {
		t.Errorf("With: %v then %v", l, two)
	}
	if got := two.With(c).WithFirst(c); !got.Equal(secret.List{c, a, b}) {
		t.Errorf("First = %v", got)
	}
	if !two.Equal(secret.List{a, b}) {
		t.Errorf("WithFirst changed the original list: %v", two)
	}
	if s, ok := two.Find(b.Fingerprint()); !ok || !s.Equal(b) {
		t.Errorf("Find = %v, %v", s, ok)
	}
	if _, ok := two.Find(c.Fingerprint()); ok {
		t.Error("Find returned a secret that is not in the list")
	}
	if keys := two.GossipKeys(); !bytes.Equal(keys[0], a.GossipKey()) || !bytes.Equal(keys[1], b.GossipKey()) {
		t.Error("gossip keys are not in the order of the list")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(known))
	f.Add([]byte("# c\n" + known + " made=2026-01-31T12:00:00Z\r\n"))
	f.Add([]byte(known + " by=rotate"))
	f.Add([]byte("sw1_"))
	f.Add([]byte(known + " made=9999-12-31T23:59:59-23:59"))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := secret.Parse(b)
		if err != nil {
			return
		}
		again, err := secret.Parse(l.Text())
		if err != nil || !again.Equal(l) {
			t.Fatalf("%q became %v, %v", l.Text(), again, err)
		}
		for i := range l {
			if !again[i].Made().Equal(l[i].Made()) || again[i].ByRotation() != l[i].ByRotation() {
				t.Fatalf("made %v became %v, by rotation %v became %v", l[i].Made(), again[i].Made(), l[i].ByRotation(), again[i].ByRotation())
			}
		}
	})
}
