"""What the shop stores."""

from django.db import models


class Order(models.Model):
    number = models.IntegerField(unique=True)
    is_confirmed = models.BooleanField(default=False)

    class Meta:
        app_label = "shop"
