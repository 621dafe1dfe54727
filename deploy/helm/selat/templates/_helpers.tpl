{{- define "selat.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 30 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 30 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "selat.selector" -}}
app.kubernetes.io/name: selat
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "selat.labels" -}}
{{ include "selat.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "selat.image" -}}
{{- $image := index .root.Values.images .role -}}
{{- if $image.digest }}{{ $image.repository }}@{{ $image.digest }}{{ else }}{{ $image.repository }}:{{ $image.tag | default .root.Chart.AppVersion }}{{ end }}
{{- end }}

{{- define "selat.masterAddress" -}}
{{- if .Values.masterAddress }}{{ .Values.masterAddress }}{{ else if .Values.master.enabled }}{{ include "selat.name" . }}-master:7410{{ else }}{{ fail "masterAddress must be HOST:PORT of the master when master.enabled is false" }}{{ end }}
{{- end }}

{{/* Further flags of security, as given; no release is rendered without a word on how its members know one another. */}}
{{- define "selat.securityFlags" -}}
{{- $insecure := has "--insecure" (regexSplit "\\s+" .Values.securityFlags -1) -}}
{{- if and (not .Values.certificates.secretPrefix) (not $insecure) -}}
{{- fail "certificates.secretPrefix must name the secrets with members' certificates; or say securityFlags=--insecure, when nobody is to ask who connects, and the network policies alone are to protect" -}}
{{- else if and .Values.certificates.secretPrefix $insecure -}}
{{- fail "there is certificates.secretPrefix and --insecure in securityFlags: say only one of them" -}}
{{- else if and .Values.master.adminTokenSecret $insecure -}}
{{- fail "master.adminTokenSecret needs certificates.secretPrefix: without certificates the master asks nobody for tokens" -}}
{{- end -}}
{{- .Values.securityFlags -}}
{{- end }}

{{- define "selat.masterSecurityFlags" -}}
{{- $further := include "selat.securityFlags" . -}}
{{- if .Values.certificates.secretPrefix -}}
{{- $token := ternary "/etc/selat/admin/admin.token" "/var/lib/selat/master/admin.token" (not (empty .Values.master.adminTokenSecret)) -}}
{{- printf "--auth --bootstrap-token-file %s --audit-log /var/lib/selat/master/audit.log %s" $token $further | trim -}}
{{- else }}{{ $further }}{{ end }}
{{- end }}

{{/* Items of a pod with a member's certificate; all empty without certificates. */}}
{{- define "selat.certificateEnv" -}}
{{- if .Values.certificates.secretPrefix }}
- {name: SELAT_TLS_DIR, value: /etc/selat/tls}
{{- end }}
{{- end }}

{{- define "selat.certificateMount" -}}
{{- if .Values.certificates.secretPrefix }}
# The whole directory: a single file (subPath) would not be updated.
- {name: tls, mountPath: /etc/selat/tls, readOnly: true}
{{- end }}
{{- end }}

{{/* Of a dict with `root` and `member`. Files are root's and the group's (fsGroup): members take such keys. */}}
{{- define "selat.certificateVolume" -}}
{{- with .root.Values.certificates.secretPrefix }}
- name: tls
  secret: {secretName: {{ . }}{{ $.member }}, defaultMode: 0440}
{{- end }}
{{- end }}

{{- define "selat.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "selat.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "selat.storage" -}}
- metadata: {name: state}
  spec:
    accessModes: [ReadWriteOnce]
    {{- with .className }}
    storageClassName: {{ . }}
    {{- end }}
    resources: {requests: {storage: {{ .size }}}}
{{- end }}
