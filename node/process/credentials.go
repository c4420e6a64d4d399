package process

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rs/zerolog"

	"shardway/admin"
	"shardway/admin/auth"
	"shardway/config"
	"shardway/diagnosis"
	"shardway/internal/address"
	"shardway/internal/secret"
	"shardway/node"
	"shardway/node/disk"
)

// credentials contains what protects the ports of a node: the secret, the certificates and the
// admin tokens, loaded from the configured files. It reloads files that change. An invalid file
// has no effect.
type credentials struct {
	config *config.Config
	log    zerolog.Logger
	nodeID string // empty before applyTo

	secret    *secret.Store      // nil means no secret
	wrapper   *secret.TLSWrapper // nil means plain TCP between nodes
	pki       *secret.PKI        // nil means certificates derived from the secret
	access    auth.Access
	adminCert atomic.Pointer[tls.Certificate]  // of the admin port; nil means plain HTTP
	nodeCert  atomic.Pointer[x509.Certificate] // for connections between nodes, of pki
	// fileStates has the states of the files before they were read.
	fileStates struct{ pki, access, cert secret.FileState }
}

// statFiles returns the state of the configured files. Empty paths are ignored.
func statFiles(paths ...string) secret.FileState {
	return secret.StatFiles(slices.DeleteFunc(paths, func(p string) bool { return p == "" })...)
}

// loadCredentials loads the files. It finds all mistakes before New opens anything. The error is
// created by errors.Join.
func loadCredentials(c *config.Config, log zerolog.Logger) (*credentials, error) {
	cr := &credentials{config: c, log: log}
	cr.fileStates.pki, cr.fileStates.cert = statFiles(c.TLSCA, c.TLSNodeCert, c.TLSNodeKey), statFiles(c.AdminCert, c.AdminKey)
	cr.fileStates.access = statFiles(c.AdminReadTokenFile, c.AdminWriteTokenFile, c.AdminReadCA, c.AdminWriteCA)
	var wrong []error
	if c.SecretFile != "" {
		var err error
		if cr.secret, err = secret.Open(c.SecretFile); err != nil {
			wrong = append(wrong, fmt.Errorf("--secret-file: %w", err))
		}
	}
	if c.TLSCA != "" {
		cr.pki = &secret.PKI{CA: c.TLSCA, Cert: c.TLSNodeCert, Key: c.TLSNodeKey}
	}
	var faults []error
	cr.access, faults = readAccess(c)
	wrong = append(wrong, faults...)
	if c.AdminCert != "" {
		cert, err := secret.KeyPair(c.AdminCert, c.AdminKey)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("--admin-cert: %w", err))
		}
		cr.adminCert.Store(&cert)
	}
	return cr, errors.Join(wrong...)
}

// applyTo adds the secret and the TLS configuration to the options of a node.
func (cr *credentials) applyTo(o *node.Options) error {
	o.Secrets = cr.secret
	id := o.Dir.Node()
	cr.nodeID = id
	var trust *secret.Trust
	var err error
	switch {
	case cr.pki != nil:
		if trust, err = cr.pki.Load(id); err != nil {
			return fmt.Errorf("--tls-node-cert: %w", err)
		}
		cr.wrapper = secret.NewTLSWrapper(trust)
		cr.nodeCert.Store(trust.Leaf())
	case cr.secret != nil:
		if trust, err = secret.Derive(cr.secret.List(), id); err != nil {
			return err
		}
		cr.wrapper = secret.NewTLSWrapper(trust)
		cr.secret.OnChange(func(l secret.List) error {
			next, err := secret.Derive(l, id)
			if err == nil {
				cr.wrapper.Replace(next)
			}
			return err
		})
	default:
		return nil
	}
	o.WrapClient, o.WrapServer = cr.wrapper.Client, cr.wrapper.Server
	return nil
}

// shareTickets lets the clients of a port resume TLS sessions at every node, if there is a secret.
func (cr *credentials) shareTickets(tl *tlsListener) {
	if cr.secret == nil {
		return
	}
	cr.secret.OnChange(func(l secret.List) error {
		tl.shareTickets(l)
		return nil
	})
	tl.shareTickets(cr.secret.List())
}

// readAccess reads the access rules of the admin port. It returns one error for each invalid file.
func readAccess(c *config.Config) (auth.Access, []error) {
	a := auth.Access{Hosts: c.AdminHosts}
	var wrong []error
	for _, f := range []struct {
		flag, path string
		into       *auth.Tokens
	}{{"admin-read-token-file", c.AdminReadTokenFile, &a.Read}, {"admin-write-token-file", c.AdminWriteTokenFile, &a.Write}} {
		if f.path == "" {
			continue
		}
		b, err := secret.ReadTokens(f.path)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("--%s: %w", f.flag, err))
			continue
		}
		if *f.into, err = auth.ParseTokens(b); err != nil {
			wrong = append(wrong, fmt.Errorf("--%s: %s: %w", f.flag, f.path, err))
		}
	}
	for _, f := range []struct {
		flag, path string
		into       **x509.CertPool
	}{{"admin-read-ca", c.AdminReadCA, &a.ReadCAs}, {"admin-write-ca", c.AdminWriteCA, &a.WriteCAs}} {
		if f.path == "" {
			continue
		}
		cas, err := secret.ReadAuthorities(f.path)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("--%s: %w", f.flag, err))
			continue
		}
		*f.into = x509.NewCertPool()
		for _, ca := range cas {
			(*f.into).AddCert(ca)
		}
	}
	return a, wrong
}

// wrapAdmin adds TLS to the admin port if it has a certificate.
func (cr *credentials) wrapAdmin(ln net.Listener) net.Listener {
	if cr.adminCert.Load() == nil {
		return ln
	}
	return tls.NewListener(ln, &tls.Config{
		MinVersion: tls.VersionTLS12,
		// Package admin verifies the client certificate for each request.
		ClientAuth:     tls.RequestClientCert,
		NextProtos:     []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return cr.adminCert.Load(), nil },
	})
}

// watchFiles reloads files that change, until ctx ends.
func (cr *credentials) watchFiles(ctx context.Context, n *node.Node, ops *admin.Server) {
	var wg sync.WaitGroup
	if cr.secret != nil {
		wg.Go(func() { cr.secret.Run(ctx, cr.log) })
	}
	watch := func(what string, seen secret.FileState, reload func() error) {
		if seen.Empty() {
			return
		}
		wg.Go(func() {
			seen.Watch(ctx, func() {
				if err := reload(); err != nil {
					cr.log.Error().Err(err).Str("what", what).Msg("changed file rejected, keeping old one")
					return
				}
				cr.log.Info().Str("what", what).Msg("changed file loaded")
			})
		})
	}
	if cr.pki != nil {
		watch("certificates between nodes", cr.fileStates.pki, func() error { return cr.reloadPKI(n) })
	}
	c := cr.config
	watch("access to admin", cr.fileStates.access, func() error {
		a, wrong := readAccess(c)
		err := errors.Join(wrong...)
		if err == nil {
			ops.SetAccess(a)
		}
		return err
	})
	watch("certificate of admin", cr.fileStates.cert, func() error {
		cert, err := secret.KeyPair(c.AdminCert, c.AdminKey)
		if err == nil {
			cr.adminCert.Store(&cert)
		}
		return err
	})
	wg.Wait()
}

// reloadPKI loads the certificates for connections between nodes. It fails if only one of several
// files has been replaced yet; the next check then finds the other files.
func (cr *credentials) reloadPKI(n *node.Node) error {
	trust, err := cr.pki.Load(cr.nodeID)
	if err != nil {
		return err
	}
	cr.wrapper.Replace(trust)
	cr.nodeCert.Store(trust.Leaf())
	n.RenewPeers()
	return nil
}

// exposures returns the ports without protection, and the certificates in use.
func (p *Process) exposures() (open []diagnosis.Exposure, certs []diagnosis.Certificate) {
	cr := p.credentials
	c := cr.config
	if !c.UsesPeerTLS() && (!address.IsLoopback(c.Peer) || !address.IsLoopback(c.Gossip)) {
		open = append(open, diagnosis.Exposure{
			Text:   fmt.Sprintf("anyone who reaches the gossip or peer port of node %s (%s, %s) controls the traffic", cr.nodeID, c.Gossip, c.Peer),
			Remedy: "give the cluster a secret (--secret-file)",
		})
	}
	switch {
	case address.IsLoopback(c.Admin):
	case !c.RequiresAdminCredentials():
		open = append(open, diagnosis.Exposure{
			Text: fmt.Sprintf("anyone who reaches the admin port of node %s (%s) can change the cluster", cr.nodeID, c.Admin), Remedy: "require a token (--admin-write-token-file)",
		})
	case c.AdminCert == "":
		open = append(open, diagnosis.Exposure{
			Text: fmt.Sprintf("the admin tokens of node %s (%s) are sent unencrypted", cr.nodeID, c.Admin), Remedy: "use TLS (--admin-cert, --admin-key)",
		})
	}
	add := func(what, flag string, leaf *x509.Certificate) {
		if leaf != nil {
			certs = append(certs, diagnosis.Certificate{Purpose: what, Flag: flag, ExpiresAt: leaf.NotAfter})
		}
	}
	if now := p.appPort.cert.Load(); now != nil {
		add("the app port", "tls-cert", now.tls.Leaf)
	}
	if now := cr.adminCert.Load(); now != nil {
		add("the admin port", "admin-cert", now.Leaf)
	}
	if cr.pki != nil {
		add("other nodes", "tls-node-cert", cr.nodeCert.Load())
	}
	return open, certs
}

// Check reads all configured files with credentials, as New does, and checks whether the data
// directory is writable. Each error has the form "--flag: reason". Certificates for connections
// between nodes are checked for the configured node ID, if there is one.
func Check(c *config.Config) []error {
	cr, err := loadCredentials(c, zerolog.Nop())
	var wrong []error
	if all, ok := err.(interface{ Unwrap() []error }); ok { // a result of errors.Join
		wrong = all.Unwrap()
	}
	if cr.pki != nil && c.Node != "" && c.TLSNodeCert != "" && c.TLSNodeKey != "" {
		if _, err := cr.pki.Load(c.Node); err != nil {
			wrong = append(wrong, fmt.Errorf("--tls-node-cert: %w", err))
		}
	}
	if _, err := readCertificate(c.TLSCert, c.TLSKey); err != nil {
		wrong = append(wrong, err)
	}
	if err := disk.CheckWritable(c.Data); c.Data != "" && err != nil {
		wrong = append(wrong, fmt.Errorf("--data: %w", err))
	}
	return wrong
}
