package address_test

import (
	"net/url"
	"strings"
	"testing"

	"shardway/internal/address"
)

func TestParseWebhook(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{ // "" means an error, otherwise the redacted URL
		"https://hub.example":                    "https://hub.example",
		"http://127.0.0.1:9000/":                 "http://127.0.0.1:9000/",
		"https://[::1]:443/x":                    "https://[::1]:443/…",
		"https://u:p@hub.example":                "https://hub.example/…",
		"https://hub.example?t=1":                "https://hub.example/…",
		"HTTPS://hub.example/x":                  "https://hub.example/…",
		"https://hub.example/a%20b":              "https://hub.example/…",
		"":                                       "",
		"hub.example":                            "",
		"//hub.example/x":                        "",
		"ftp://hub.example/x":                    "",
		"https:///x":                             "",
		"https://:443/x":                         "",
		"https://hub.example:/x":                 "",
		"https://hub.example:0/x":                "",
		"https://hub.example:65536/x":            "",
		"https://hub.example/x#y":                "",
		"https://hub.example/x#":                 "",
		"https://hub.example/a b":                "",
		"https://hub.example/a\nb":               "",
		"https://hub.example/a\x00":              "",
		"https://hub_x^/":                        "",
		"https:hub.example":                      "",
		"https://u:p@":                           "",
		"https://h/" + strings.Repeat("x", 2048): "",
	} {
		parsed, err := address.ParseWebhook(text)
		if (err == nil) != (want != "") {
			t.Errorf("ParseWebhook(%q) = %v, %v", text, parsed, err)
		}
		if err == nil && address.RedactURL(text) != strings.TrimSuffix(want, "/") {
			t.Errorf("RedactURL(%q) = %q, want %q", text, address.RedactURL(text), want)
		}
	}
}

// A valid URL can be requested as it is, and neither the error nor the redacted form contains a secret.
func FuzzParseWebhook(f *testing.F) {
	for _, seed := range []string{"https://u:hidden@hub.example:1/hidden?hidden", "http://[::1%25hidden]/", "https://hidden", "http://a@b:1@c/", "https://h/%zz", "http://h\\@x/"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := address.ParseWebhook(text)
		redacted := address.RedactURL(text)
		if err != nil {
			if text != "" && redacted != "…" && !strings.HasPrefix(redacted, "http") {
				t.Errorf("%q: %q", text, redacted)
			}
			return
		}
		again, err := url.Parse(parsed.String())
		if err != nil || again.Host != parsed.Host || parsed.Hostname() == "" || strings.ContainsAny(parsed.Host, " \r\n/@?#\\") {
			t.Errorf("%q: host %q, then %v, %v", text, parsed.Host, again, err)
		}
		if want := parsed.Scheme + "://" + parsed.Host; strings.TrimSuffix(redacted, "/…") != want {
			t.Errorf("%q: %q, want %q", text, redacted, want)
		}
	})
}
