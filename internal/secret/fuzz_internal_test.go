package secret

import (
	"encoding/pem"
	"testing"
	"time"
)

// FuzzParseAuthorities checks that parsing a CA file never crashes and returns CA
// certificates only.
func FuzzParseAuthorities(f *testing.F) {
	a, err := Generate(time.Time{}).authority()
	if err != nil {
		f.Fatal(err)
	}
	one := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
	f.Add(one)
	f.Add(append([]byte("# mine\n"), append(one, one...)...))
	f.Add(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("x")}))
	f.Fuzz(func(t *testing.T, b []byte) {
		cas, err := parseAuthorities(b)
		if (err == nil) != (len(cas) > 0) {
			t.Fatalf("%d authorities, %v", len(cas), err)
		}
		for _, c := range cas {
			if !c.IsCA {
				t.Fatalf("%v is no authority", c.Subject)
			}
			nodeIDs(c)
		}
	})
}
