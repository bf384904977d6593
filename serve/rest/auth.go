package rest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/mash2-io/mash2/api"
)

// TokenHeader carries a bearer token where Authorization is not free: the API server's
// proxy keeps that for itself.
const TokenHeader = "X-Mash2-Token"

// Errors of who asks.
var (
	errNoToken   = errors.New("a bearer token is needed: kubectl create token NAME makes one")
	errBadToken  = errors.New("the API server doesn't accept this token")
	errForbidden = errors.New("you may list ManagedWorkloads in none of the namespaces there are")
	errBusy      = errors.New("too many tokens were asked about; try again in a few seconds")
)

// An Authenticator says who asks and what they may see, among namespaces.
type Authenticator interface {
	Viewer(ctx context.Context, r *http.Request, namespaces []string) (Viewer, error)
}

// Everybody sees everything: for pages that only this machine can reach.
type Everybody struct{}

// Viewer implements Authenticator.
func (Everybody) Viewer(context.Context, *http.Request, []string) (Viewer, error) {
	return Viewer{Name: "anybody on this machine", All: true, Nodes: true, Addresses: true}, nil
}

// Kubernetes asks the API server who a token is of (TokenReview) and what they may see
// (SubjectAccessReview): list on managedworkloads and, for addresses in them, on strategies,
// cluster-wide or by namespace, and list on nodes. Answers count for [Remembered].
type Kubernetes struct {
	client kubernetes.Interface
	now    func() time.Time
	limit  *rate.Limiter

	mu    sync.Mutex
	users map[[sha256.Size]byte]*user
}

// Remembered is for how long an answer of the API server counts: a token that is revoked,
// or a right that is taken away, ends no later.
const Remembered = 20 * time.Second

// mostUsers whose answers are remembered at once.
const mostUsers = 1000

// mostNamespaces are asked about for one who may not see all.
const mostNamespaces = 500

// user is what the API server said of a token.
type user struct {
	mu         sync.Mutex // held while the API server is asked
	until      time.Time
	err        error // of a token that is none
	info       authenticationv1.UserInfo
	all, nodes bool
	addresses  bool                // in all namespaces
	namespaces map[string]rightsIn // what was asked about
}

// rightsIn a namespace: to list ManagedWorkloads, and Strategies besides.
type rightsIn struct{ workloads, strategies bool }

// NewKubernetes returns one that asks by this client, which needs create on tokenreviews
// and subjectaccessreviews. Time is read by now.
func NewKubernetes(client kubernetes.Interface, now func() time.Time) *Kubernetes {
	// A second's worth of new tokens is more than people make, and nothing for an API server.
	return &Kubernetes{client: client, now: now, limit: rate.NewLimiter(10, 50), users: map[[sha256.Size]byte]*user{}}
}

// token is what a request brings.
func token(r *http.Request) string {
	if t := r.Header.Get(TokenHeader); t != "" {
		return t
	}
	scheme, t, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return strings.TrimSpace(t)
}

// Viewer implements Authenticator.
func (k *Kubernetes) Viewer(ctx context.Context, r *http.Request, namespaces []string) (Viewer, error) {
	t := token(r)
	if t == "" {
		return Viewer{}, errNoToken
	}
	u := k.user(sha256.Sum256([]byte(t)))
	u.mu.Lock()
	defer u.mu.Unlock()
	if !k.now().Before(u.until) {
		if err := k.ask(ctx, u, t); err != nil {
			return Viewer{}, err
		}
	}
	if u.err != nil {
		return Viewer{}, u.err
	}
	v := Viewer{Name: u.info.Username, All: u.all, Nodes: u.all && u.nodes, Addresses: u.addresses}
	if v.All {
		return v, nil
	}
	if len(namespaces) > mostNamespaces {
		return v, fmt.Errorf("%w of the first %d; name yours with ?namespace=NAME", errForbidden, mostNamespaces)
	}
	v.Namespaces, v.AddressesOf = map[string]bool{}, map[string]bool{}
	for _, n := range namespaces {
		may, known := u.namespaces[n]
		if !known {
			var err error
			if may.workloads, err = k.may(ctx, u.info, n, "list", api.Group, "managedworkloads"); err != nil {
				return Viewer{}, err
			}
			if may.workloads {
				if may.strategies, err = k.may(ctx, u.info, n, "list", api.Group, "strategies"); err != nil {
					return Viewer{}, err
				}
			}
			u.namespaces[n] = may
		}
		if may.workloads {
			v.Namespaces[n], v.AddressesOf[n] = true, may.strategies
		}
	}
	if len(v.Namespaces) == 0 {
		return v, errForbidden
	}
	return v, nil
}

// user is what is remembered of a token, by its hash.
func (k *Kubernetes) user(hash [sha256.Size]byte) *user {
	k.mu.Lock()
	defer k.mu.Unlock()
	u := k.users[hash]
	if u == nil {
		if len(k.users) >= mostUsers {
			clear(k.users)
		}
		u = &user{}
		k.users[hash] = u
	}
	return u
}

// ask asks the API server anew. An error is of a question that had no answer: nobody is
// let in on an old one.
func (k *Kubernetes) ask(ctx context.Context, u *user, t string) error {
	if !k.limit.Allow() {
		return errBusy
	}
	asked := k.now()
	review, err := k.client.AuthenticationV1().TokenReviews().Create(ctx,
		&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: t}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("asking the API server about a token: %w", err)
	}
	u.info, u.namespaces, u.all, u.nodes, u.addresses, u.err = review.Status.User, map[string]rightsIn{}, false, false, false, nil
	if !review.Status.Authenticated {
		u.err, u.until = errBadToken, asked.Add(Remembered)
		return nil
	}
	if u.all, err = k.may(ctx, u.info, "", "list", api.Group, "managedworkloads"); err != nil {
		return err
	}
	if u.all {
		if u.nodes, err = k.may(ctx, u.info, "", "list", "", "nodes"); err != nil {
			return err
		}
		if u.addresses, err = k.may(ctx, u.info, "", "list", api.Group, "strategies"); err != nil {
			return err
		}
	}
	u.until = asked.Add(Remembered)
	return nil
}

func (k *Kubernetes) may(ctx context.Context, u authenticationv1.UserInfo, namespace, verb, group, resource string) (bool, error) {
	extra := make(map[string]authorizationv1.ExtraValue, len(u.Extra))
	for key, v := range u.Extra {
		extra[key] = authorizationv1.ExtraValue(v)
	}
	review, err := k.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: u.Username, UID: u.UID, Groups: u.Groups, Extra: extra,
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: verb, Group: group, Resource: resource},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("asking the API server for a right: %w", err)
	}
	return review.Status.Allowed, nil
}
