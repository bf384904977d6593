package gke

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"cloud.google.com/go/container/apiv1/containerpb"
	"github.com/googleapis/gax-go/v2/apierror"
	"google.golang.org/api/googleapi"
	"google.golang.org/grpc/codes"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/execution/provider"
)

// Errors of the provider, to be told apart by errors.Is: those of every
// provider, under the names they have here.
var (
	ErrBusy        = provider.ErrBusy
	ErrQuota       = provider.ErrQuota
	ErrStockout    = provider.ErrStockout
	ErrPermission  = provider.ErrPermission
	ErrNotFound    = provider.ErrNotFound
	ErrUnavailable = provider.ErrUnavailable
	// ErrAutopilot means: in an Autopilot cluster Google manages the nodes.
	ErrAutopilot = fmt.Errorf("%w: the cluster is in Autopilot mode: its nodes can't be managed", provider.ErrUnsupported)
)

// classify wraps an error of a Google API in the sentinel that fits.
func classify(err error) error {
	if err == nil {
		return nil
	}
	if kind := kindOf(err); kind != nil {
		return fmt.Errorf("%w: %w", kind, err)
	}
	return err
}

func kindOf(err error) error {
	e, ok := apierror.FromError(err)
	if !ok {
		return nil
	}
	if e.Reason() == "CLUSTER_ALREADY_HAS_OPERATION" || strings.Contains(e.Error(), "incompatible operation") {
		return ErrBusy
	}
	switch kindOfMessage(e.Error()) {
	case api.PoolQuota:
		return ErrQuota
	case api.PoolStockout:
		return ErrStockout
	}
	if limitsRate(e) {
		return ErrUnavailable
	}
	switch e.HTTPCode() {
	case http.StatusUnauthorized, http.StatusForbidden:
		return ErrPermission
	case http.StatusNotFound:
		return ErrNotFound
	case http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return ErrUnavailable
	}
	if e.GRPCStatus() == nil {
		return nil
	}
	switch e.GRPCStatus().Code() {
	case codes.PermissionDenied, codes.Unauthenticated:
		return ErrPermission
	case codes.NotFound:
		return ErrNotFound
	case codes.Aborted:
		return ErrBusy
	case codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted, codes.Internal:
		return ErrUnavailable
	}
	return nil
}

// limitsRate tells whether there were too many calls. Compute Engine answers these with the
// status of a missing permission, and a reason.
func limitsRate(e *apierror.APIError) bool {
	var answer *googleapi.Error
	return strings.Contains(e.Error(), "quota metric") || errors.As(e, &answer) && slices.ContainsFunc(answer.Errors, func(item googleapi.ErrorItem) bool {
		return item.Reason == "rateLimitExceeded" || item.Reason == "userRateLimitExceeded"
	})
}

// kindOfMessage recognises quota and stockout in the text of a failure; the
// rate limits of the API itself are neither.
func kindOfMessage(text string) api.PoolErrorKind {
	has := func(parts ...string) bool {
		for _, p := range parts {
			if strings.Contains(text, p) {
				return true
			}
		}
		return false
	}
	switch {
	case has("quota metric"):
		return api.PoolOther
	case has("ZONE_RESOURCE_POOL_EXHAUSTED", "GCE_STOCKOUT", "does not have enough resources", "resource availability"):
		return api.PoolStockout
	case has("QUOTA_EXCEEDED", "Insufficient quota", "Insufficient regional quota", "Quota '", "quota exceeded"):
		return api.PoolQuota
	}
	return api.PoolOther
}

// kindOfCondition is the kind of a pool's condition; ok is false for those that
// are not about getting nodes.
func kindOfCondition(c *containerpb.StatusCondition) (kind api.PoolErrorKind, ok bool) {
	switch c.GetCode() { //nolint:staticcheck // the canonical code doesn't tell a stockout from a quota
	case containerpb.StatusCondition_GCE_STOCKOUT:
		return api.PoolStockout, true
	case containerpb.StatusCondition_GCE_QUOTA_EXCEEDED:
		return api.PoolQuota, true
	case containerpb.StatusCondition_UNKNOWN:
		return kindOfMessage(c.GetMessage()), true
	}
	return api.PoolOther, c.GetCanonicalCode() != 0
}
