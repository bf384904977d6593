package api

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
)

// maxURL is the most bytes of an address.
const maxURL = 2048

// CheckURL tells what is wrong with an address that a strategy names.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case len(text) > maxURL:
		return fmt.Errorf("must have at most %d bytes, has %d", maxURL, len(text))
	case err != nil:
		return errors.New("is no URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("must begin with http:// or https://, is %q", text)
	case u.Hostname() == "":
		return errors.New("has no host")
	case u.User != nil:
		return errors.New("must have no user and password: they would be in the clear")
	case u.Fragment != "":
		return errors.New("must have no fragment (#)")
	}
	return nil
}

// HostAllowed tells whether the address of a strategy in a namespace is one of those that
// mash2's owner allowed, each [NAMESPACE/]HOST[:PORT]. Without a namespace it is for all of
// them, without a port for the scheme's own.
func HostAllowed(allowed []string, namespace, address string) error {
	u, err := url.Parse(address)
	if err != nil || CheckURL(address) != nil {
		return errors.New("is no address that can be asked")
	}
	host := hostPort(u.Scheme, u.Host)
	for _, entry := range allowed {
		in, of, qualified := strings.Cut(entry, "/")
		if !qualified {
			in, of = namespace, entry
		}
		if in == namespace && hostPort(u.Scheme, of) == host {
			return nil
		}
	}
	return fmt.Errorf("mash2's owner has not allowed %s for namespace %s", u.Host, namespace)
}

// hostPort has the port that a scheme implies where none is stated.
func hostPort(scheme, host string) string {
	u := url.URL{Host: strings.ToLower(host)}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[scheme]
	}
	return net.JoinHostPort(strings.TrimSuffix(u.Hostname(), "."), port)
}

// CheckHost tells what is wrong with an entry of the allowed hosts.
func CheckHost(entry string) error {
	namespace, host, qualified := strings.Cut(entry, "/")
	if !qualified {
		host, namespace = entry, "-"
	}
	u, err := url.Parse("http://" + host)
	if err != nil || namespace == "" || u.Hostname() == "" || u.Host != host || strings.ContainsAny(host, "*@ ") {
		return fmt.Errorf("must be [NAMESPACE/]HOST[:PORT], is %q", entry)
	}
	return nil
}
