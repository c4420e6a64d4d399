package address

import (
	"net/url"
	"strconv"
	"strings"
	"unicode"

	"shardway/internal/valueerr"
)

// maxWebhookBytes is the maximum length of the URL of a webhook.
const maxWebhookBytes = 2048

// ParseWebhook parses the URL of the receiver of a webhook. The error is a *valueerr.Error without its key. It contains only
// the part of the URL that RedactURL returns, because the URL can contain a password or a token.
func ParseWebhook(text string) (*url.URL, error) {
	const remedy = "write it like https://events.example.com/shardway"
	invalid := func(wrong, remedy string) (*url.URL, error) {
		return nil, &valueerr.Error{Value: RedactURL(text), Wrong: wrong, Remedy: remedy}
	}
	if len(text) > maxWebhookBytes {
		return invalid("it has "+strconv.Itoa(len(text))+" bytes", "use at most "+strconv.Itoa(maxWebhookBytes))
	}
	if strings.ContainsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
		return invalid("it contains a space or a control character", "write these characters as %20 and so on, or remove them")
	}
	parsed, err := url.Parse(text)
	if err != nil || !strings.Contains(text, "://") {
		return invalid("not a URL", remedy)
	}
	port := parsed.Port()
	switch {
	case parsed.Scheme != "http" && parsed.Scheme != "https":
		return invalid("the scheme is neither http nor https", remedy)
	case parsed.Hostname() == "" || !IsHost(parsed.Hostname()):
		return invalid("the host is missing or invalid", remedy)
	case strings.HasSuffix(parsed.Host, ":") || port != "" && !IsPort(port):
		return invalid("the port is invalid", "give a port from 1 to 65535, or none")
	case strings.Contains(text, "#"):
		return invalid("it contains a fragment (#), which HTTP does not send", "remove the part after #, or write # as %23")
	}
	return parsed, nil
}

// RedactURL returns the part of the URL of a webhook that is not secret: scheme, host and port. Dots stand for the
// rest, or for text that is not a URL.
func RedactURL(text string) string {
	if text == "" {
		return ""
	}
	parsed, err := url.Parse(text)
	if err != nil || parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Host == "" {
		return "…"
	}
	shown := parsed.Scheme + "://" + parsed.Host
	if parsed.User != nil || strings.Trim(parsed.Path, "/") != "" || parsed.RawQuery != "" || parsed.Fragment != "" {
		shown += "/…"
	}
	return shown
}
