package provider

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/mash2-io/mash2/api"
)

// FromKubernetes wraps an answer of a Kubernetes API server in the error that
// fits, for providers whose API is one.
func FromKubernetes(err error) error {
	var kind error
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err):
		kind = ErrNotFound
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota"):
		kind = ErrQuota
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		kind = ErrPermission
	case apierrors.IsConflict(err):
		kind = ErrBusy
	case apierrors.IsServerTimeout(err), apierrors.IsTimeout(err), apierrors.IsTooManyRequests(err),
		apierrors.IsInternalError(err), apierrors.IsServiceUnavailable(err), errors.Is(err, context.DeadlineExceeded):
		kind = ErrUnavailable
	default:
		var status apierrors.APIStatus
		if errors.As(err, &status) {
			return err
		}
		kind = ErrUnavailable // nobody answered
	}
	return fmt.Errorf("%w: %w", kind, err)
}

// KindOfMessage recognises in the text of a failure what keeps a machine from
// being had, in the words of the clouds that Kubernetes runs on.
func KindOfMessage(text string) api.PoolErrorKind {
	lower := strings.ToLower(text)
	has := func(parts ...string) bool {
		for _, p := range parts {
			if strings.Contains(lower, p) {
				return true
			}
		}
		return false
	}
	switch {
	case has("insufficientinstancecapacity", "resource_pool_exhausted", "stockout", "does not have enough resources", "resource availability",
		"insufficient capacity", "allocationfailed", "skunotavailable"):
		return api.PoolStockout
	case has("quota", "limitexceeded", "vcpulimitexceeded"):
		return api.PoolQuota
	}
	return api.PoolOther
}
