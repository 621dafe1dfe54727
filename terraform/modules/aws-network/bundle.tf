# The software and the members' certificates, in a bucket that only this network reads. So machines need no way to the
# Internet and no credentials. Nobody may list the bucket, and only its own machine is told under which name a member's
# certificate is.

resource "aws_s3_bucket" "bundle" {
  bucket_prefix = "${var.bucket_prefix}-"
  force_destroy = true
  tags          = { Name = "${var.name} bundle" }
}

resource "aws_s3_bucket_public_access_block" "bundle" {
  bucket                  = aws_s3_bucket.bundle.id
  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_server_side_encryption_configuration" "bundle" {
  bucket = aws_s3_bucket.bundle.id

  rule {
    apply_server_side_encryption_by_default {
      sse_algorithm = "AES256"
    }
  }
}

resource "aws_vpc_endpoint" "s3" {
  vpc_id            = aws_vpc.this.id
  service_name      = "com.amazonaws.${var.region}.s3"
  vpc_endpoint_type = "Gateway"
  route_table_ids   = concat([aws_route_table.inside.id], aws_route_table.front[*].id)
  tags              = { Name = "${var.name} bundle" }

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = "*"
      Action    = "s3:GetObject"
      Resource  = "${aws_s3_bucket.bundle.arn}/*"
    }]
  })
}

resource "aws_s3_bucket_policy" "bundle" {
  bucket     = aws_s3_bucket.bundle.id
  depends_on = [aws_s3_bucket_public_access_block.bundle]

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid       = "MembersReadEncrypted"
      Effect    = "Allow"
      Principal = "*"
      Action    = "s3:GetObject"
      Resource  = "${aws_s3_bucket.bundle.arn}/*"
      Condition = {
        StringEquals = { "aws:SourceVpce" = aws_vpc_endpoint.s3.id }
        Bool         = { "aws:SecureTransport" = "true" }
      }
    }]
  })
}

resource "aws_s3_object" "bundle" {
  bucket      = aws_s3_bucket.bundle.id
  key         = "bundle-${substr(var.bundle.sha256, 0, 16)}.tar.gz"
  source      = var.bundle.file
  source_hash = var.bundle.sha256
  depends_on  = [aws_s3_bucket_server_side_encryption_configuration.bundle]
}

# From files, so that keys and tokens are in no state.
resource "aws_s3_object" "secret" {
  for_each    = var.secrets
  bucket      = aws_s3_bucket.bundle.id
  key         = each.key
  source      = each.value
  source_hash = filesha256(each.value)
  depends_on  = [aws_s3_bucket_server_side_encryption_configuration.bundle]
}
